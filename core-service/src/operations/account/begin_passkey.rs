//! Begins the registration of a passkey.

use thesis_proto::v1;

use crate::{
    accounts::{
        Person,
        factors::{ChallengePurpose, MAX_PASSKEYS, new_challenge, passkeys::PasskeySite},
    },
    error::Result,
    operations::admin::{invalid, limit_reached},
    service::Core,
    store::Consistency,
    tables::account as rows,
};

/// The relying party of passkeys; an error where browsers allow no passkeys.
pub(super) fn site(core: &Core) -> Result<&PasskeySite> {
    let rule = "needs a service with an https address; use an authenticator app";
    core.accounts.passkey_site.as_ref().ok_or_else(|| invalid("passkey", rule))
}

pub async fn begin_passkey(
    core: &Core,
    person: &Person,
    _: &v1::BeginPasskeyRequest,
) -> Result<v1::BeginPasskeyResponse> {
    let site = site(core)?;
    let (_, factors) = rows::factors(&core.shared.backend, &person.user.id, Consistency::Quorum).await?;
    if factors.passkeys.len() >= MAX_PASSKEYS {
        return Err(limit_reached(&format!("a user has at most {MAX_PASSKEYS} passkeys; remove one")));
    }
    let purpose = ChallengePurpose::Registration(person.session_id.clone());
    Ok(v1::BeginPasskeyResponse {
        challenge: new_challenge(&core.shared, &person.user.id, &purpose),
        host: site.host.clone(),
        user_handle: person.user.id.clone().into_bytes().into(),
        known: factors.passkeys.into_iter().map(|one| one.credential_id).collect(),
    })
}

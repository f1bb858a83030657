//! Returns the second factors that a challenge accepts, without using it up.

use thesis_proto::v1;

use crate::{
    accounts::factors::{ChallengePurpose, challenge_over, is_used, read_challenge},
    error::Result,
    service::Core,
    store::Consistency,
    tables::account as rows,
};

pub async fn get_factor_challenge(
    core: &Core,
    _: Option<&str>,
    message: &v1::GetFactorChallengeRequest,
) -> Result<v1::GetFactorChallengeResponse> {
    let challenge = read_challenge(&core.shared, &message.challenge).ok_or_else(challenge_over)?;
    let (_, factors) = rows::factors(&core.shared.backend, &challenge.user_id, Consistency::Quorum).await?;
    if is_used(&factors, &challenge) || matches!(challenge.purpose, ChallengePurpose::Registration(_)) {
        return Err(challenge_over());
    }
    let site = core.accounts.passkey_site.as_ref();
    let passkeys = factors.passkeys.iter().filter(|_| site.is_some()).map(|one| one.credential_id.clone());
    Ok(v1::GetFactorChallengeResponse {
        totp: factors.totp.is_some(),
        recovery_codes: !factors.recovery_codes.is_empty(),
        passkeys: passkeys.collect(),
        host: site.map(|site| site.host.clone()).unwrap_or_default(),
    })
}

//! Uses a link for a new password.

use thesis_proto::v1;

use super::get_link::{Link, read_link};
use crate::{
    accounts::{
        fields::{password_fault, refuse},
        passwords::Requester,
        resets::{self, no_link},
        sessions,
    },
    error::Result,
    operations::Core,
    store::{Consistency, Expect},
    tables::account::{self as rows, Password},
};

/// Uses a link for a new password. All sessions of the user end, and a new one begins.
///
/// # Errors
/// 422, `LINK_NOT_FOUND`, or when the store does not answer.
pub async fn reset_password(
    core: &Core,
    address: Option<&str>,
    message: &v1::ResetPasswordRequest,
) -> Result<v1::ResetPasswordResponse> {
    let shared = &core.shared;
    let Link::Reset(link) = read_link(&shared.keys, &message.token)? else { return Err(no_link()) };
    let mut found = resets::find(shared, &link, Consistency::Quorum).await?;
    refuse([password_fault("password", &message.password)])?;
    shared.control.refresh().await?;
    let user = shared.control.state().people().user(&found.user_id).cloned().ok_or_else(no_link)?;
    let requester = Requester { subject: &user.id, address };
    let hash = core.accounts.passwords.hash(requester, &message.password, shared.ids.as_ref()).await?;
    let password = Password { hash, changed_at: shared.clock.now_ms() };
    let actor = sessions::actor(&user, address);
    let mut consistency = Consistency::Quorum;
    let generation = loop {
        let before = rows::password(&shared.backend, &user.id, consistency).await?.map(|(generation, _)| generation);
        let conditions = (before, Expect::Version(found.version));
        let beside = vec![sessions::audit_row(shared, &actor.does("password.reset").to(&user.id))];
        if rows::set_password(&shared.backend, &user.id, conditions, &password, beside).await? {
            break rows::next_generation(before);
        }
        // The link was used meanwhile, or the password was changed.
        consistency = Consistency::Serial;
        found = resets::find(shared, &link, consistency).await?;
    };
    let session = sessions::begin(shared, &user, (address, None), message.user_agent.as_deref(), generation).await?;
    Ok(v1::ResetPasswordResponse { session: Some(session) })
}

//! Creates a link by which a user sets a new password. The operator hands it over. Earlier links stay valid until one
//! of them is used. Its use confirms the user's e-mail, since the operator vouches for the person. The memberships of
//! an unconfirmed user end with it, unless the operator keeps them.

use thesis_proto::{time::from_millis, v1};

use super::set_administrator::no_user;
use crate::{
    accounts::{resets, sessions},
    domain::account::Actor,
    error::Result,
    service::Core,
};

pub async fn create_reset_link(
    core: &Core,
    actor: &Actor,
    message: &v1::CreateResetLinkRequest,
) -> Result<v1::CreateResetLinkResponse> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let user = shared.control.state().people().user_by_email(&message.email).cloned().ok_or_else(no_user)?;
    let beside = vec![sessions::audit_row(shared, &actor.does("password.reset_link_made").to(&user.id))];
    let keeps_memberships = message.keep_memberships;
    let creator = (Some(actor.id.as_str()), keeps_memberships);
    let (token, expires_at) = resets::create_link(shared, &user, creator, beside).await?;
    Ok(v1::CreateResetLinkResponse {
        link: core.accounts.link(&token),
        expires_at: Some(from_millis(expires_at)),
        email_confirmed: user.is_confirmed(),
        ends_memberships: resets::ends_memberships(shared.control.state().people(), &user, keeps_memberships),
    })
}

//! Removes the second factors of a user who has lost them. The operator has verified the user's identity. Repeating it
//! changes nothing.

use thesis_proto::v1;

use super::set_administrator::no_user;
use crate::{
    accounts::{
        factors,
        notices::{self, Notice},
    },
    convert,
    domain::account::Actor,
    error::Result,
    service::Core,
};

pub async fn remove_second_factors(
    core: &Core,
    actor: &Actor,
    message: &v1::RemoveSecondFactorsRequest,
) -> Result<v1::RemoveSecondFactorsResponse> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let user = shared.control.state().people().user_by_email(&message.email).cloned().ok_or_else(no_user)?;
    let had_some = factors::remove_all(shared, &user.id, actor).await?;
    factors::publish(shared, &user.id, actor, false).await?;
    if had_some {
        notices::post(&core.accounts, shared, &user, Notice::FactorRemoved, None).await;
    }
    let user = shared.control.state().people().user(&user.id).cloned().ok_or_else(no_user)?;
    Ok(v1::RemoveSecondFactorsResponse { user: Some(convert::account::user(&user)) })
}

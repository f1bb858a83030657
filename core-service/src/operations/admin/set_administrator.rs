//! Grants or withdraws the rights of an administrator. Repeating it changes nothing. Open invitations by a former
//! administrator admit no new users any more.

#[cfg(test)]
mod tests;

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    accounts::notices::{self, Notice},
    control::ControlState,
    convert,
    domain::{
        account::{Actor, User},
        control::ControlChange,
    },
    error::{Error, Result},
    operations::account::set_up::withdrawn,
    service::Core,
};

pub(super) fn no_user() -> Error {
    let list = "list them with `trade-thesis admin user list`, or let them in with `trade-thesis admin user create`";
    Error::new(ErrorCode::UserNotFound, format!("there is no user with this e-mail; {list}"))
}

pub async fn set_administrator(
    core: &Core,
    actor: &Actor,
    message: &v1::SetAdministratorRequest,
) -> Result<v1::SetAdministratorResponse> {
    let administrator = message.administrator;
    let set = |state: &ControlState| {
        let people = state.people();
        let before = people.user_by_email(&message.email).ok_or_else(no_user)?;
        if administrator && !before.is_confirmed() {
            let text = "this user's e-mail is not confirmed; let them open the link in the letter that confirms it, or \
                        confirm it with `trade-thesis admin user confirm`";
            return Err(Error::new(ErrorCode::EmailNotConfirmed, text));
        }
        let after = User { administrator, ..User::clone(before) };
        if !administrator && before.administrator && people.administrators() == 1 {
            let text = "this is the last administrator; make another user one first";
            return Err(Error::new(ErrorCode::LastAdministrator, text));
        }
        let mut changes = Vec::new();
        if **before != after {
            changes.push(ControlChange::User(after.clone()));
        }
        if administrator {
            changes.extend(withdrawn(people));
        } else {
            let invitations =
                people.invitations().filter(|row| row.organization_id.is_none() && row.creator == after.id);
            changes.extend(invitations.map(|row| ControlChange::InvitationGone(row.id.clone())));
        }
        let new_administrator = (administrator && !before.administrator).then(|| after.clone());
        Ok((changes, (v1::SetAdministratorResponse { user: Some(convert::account::user(&after)) }, new_administrator)))
    };
    let action = if administrator { "user.administrator_made" } else { "user.administrator_unmade" };
    let (response, new_administrator) = core.shared.control.change(actor.does(action), set).await?;
    if let Some(user) = new_administrator {
        notices::post(&core.accounts, &core.shared, &user, Notice::BecameAdministrator, actor.address.as_deref()).await;
    }
    Ok(response)
}

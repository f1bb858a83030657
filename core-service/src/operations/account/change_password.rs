//! Sets a new password if the request has the present one. All sessions of the user end, a new one starts, and links
//! for a new password are withdrawn. Wrong present passwords count for the session, changes for the user.

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    accounts::{
        Person,
        attempts::{self, PASSWORD_IN_SESSION, PASSWORDS_OF_USER},
        fields::{password_fault, refuse},
        notices::{self, Notice},
        passwords::{NO_PASSWORD, Requester},
        sessions,
    },
    error::{Error, Result},
    operations::admin::invalid,
    service::Core,
    store::{Consistency, Expect},
    tables::account::{self as rows, Password},
};

pub async fn change_password(
    core: &Core,
    person: &Person,
    message: &v1::ChangePasswordRequest,
) -> Result<v1::ChangePasswordResponse> {
    refuse([password_fault("password", &message.password)])?;
    let shared = &core.shared;
    let (session_id, user_id) = (person.session_id.clone(), person.user.id.clone());
    let limits = vec![(PASSWORD_IN_SESSION, session_id), (PASSWORDS_OF_USER, user_id)];
    let mut of_session = attempts::reserve_all(shared, limits).await?;
    let of_user = of_session.split_off(1);
    let outcome = check_and_set(core, person, message).await;
    let is_wrong = outcome.as_ref().is_err_and(|error| error.api.code == ErrorCode::ValidationFailed);
    if !is_wrong {
        attempts::give_back(shared, of_session).await;
    }
    if outcome.is_err() {
        attempts::give_back(shared, of_user).await;
    }
    outcome
}

async fn check_and_set(
    core: &Core,
    person: &Person,
    message: &v1::ChangePasswordRequest,
) -> Result<v1::ChangePasswordResponse> {
    let (shared, user) = (&core.shared, &person.user);
    let address = person.actor.address.as_deref();
    let requester = Requester { subject: &user.id, address, is_known: true };
    let stored = rows::password(&shared.backend, &user.id, Consistency::Quorum).await?;
    let (before, present) =
        stored.map_or_else(|| (0, NO_PASSWORD.to_owned()), |(before, stored)| (before, stored.hash));
    if !core.accounts.passwords.verify(requester, &message.current_password, present).await? {
        return Err(invalid("current_password", "is not your password; type the present one"));
    }
    let hash = core.accounts.passwords.hash(requester, &message.password, shared.ids.as_ref()).await?;
    let password = Password { hash, changed_at: shared.clock.now_ms(), ends_memberships: false };
    let beside = vec![sessions::audit_row(shared, &person.actor.does("password.changed").to(&user.id))];
    if !rows::set_password(&shared.backend, &user.id, (Some(before), Expect::Any), &password, beside).await? {
        let text = "the password was changed meanwhile; sign in with the new one";
        return Err(Error::new(ErrorCode::ChangedMeanwhile, text));
    }
    notices::post(&core.accounts, shared, user, Notice::PasswordSet, address).await;
    let generation = rows::next_generation(Some(before));
    let session = sessions::begin(shared, user, (address, None), message.user_agent.as_deref(), generation).await?;
    Ok(v1::ChangePasswordResponse { session: Some(session) })
}

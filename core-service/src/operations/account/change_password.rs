//! Sets a new password.

use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1,
};

use crate::{
    accounts::{
        Person,
        attempts::{self, PASSWORD_IN_SESSION},
        fields::{password_fault, refuse},
        passwords::{NO_PASSWORD, Requester},
        sessions,
    },
    error::{Error, Result},
    operations::Core,
    store::{Consistency, Expect},
    tables::account::{self as rows, Password},
};

/// Sets a new password for who tells the present one. All sessions of the user end, and a new one begins; links for a
/// new password are withdrawn. Wrong present passwords count for the session alone.
///
/// # Errors
/// 422, `RATE_LIMITED`, `CHANGED_MEANWHILE`, or when the store does not answer.
pub async fn change_password(
    core: &Core,
    person: &Person,
    message: &v1::ChangePasswordRequest,
) -> Result<v1::ChangePasswordResponse> {
    refuse([password_fault("password", &message.password)])?;
    let (shared, user) = (&core.shared, &person.user);
    let tried = attempts::of_session(shared, &PASSWORD_IN_SESSION, &person.session_id).await?;
    let address = person.actor.address.as_deref();
    let requester = Requester { subject: &user.id, address };
    let checked = check(core, person, requester, &message.current_password).await;
    if !checked.as_ref().is_err_and(|error| error.api.code == ErrorCode::ValidationFailed) {
        attempts::give_back(shared, [tried]).await;
    }
    let before = checked?;
    let hash = core.accounts.passwords.hash(requester, &message.password, shared.ids.as_ref()).await?;
    let password = Password { hash, changed_at: shared.clock.now_ms(), ends_memberships: false };
    let beside = vec![sessions::audit_row(shared, &person.actor.does("password.changed").to(&user.id))];
    if !rows::set_password(&shared.backend, &user.id, (Some(before), Expect::Any), &password, beside).await? {
        let text = "the password was changed meanwhile; sign in with the new one";
        return Err(Error::new(ErrorCode::ChangedMeanwhile, text));
    }
    let generation = rows::next_generation(Some(before));
    let session = sessions::begin(shared, user, (address, None), message.user_agent.as_deref(), generation).await?;
    Ok(v1::ChangePasswordResponse { session: Some(session) })
}

/// The generation of the present password, if it is this one.
async fn check(core: &Core, person: &Person, requester: Requester<'_>, password: &str) -> Result<i64> {
    let stored = rows::password(&core.shared.backend, &person.user.id, Consistency::Quorum).await?;
    let (generation, hash) =
        stored.map_or_else(|| (0, NO_PASSWORD.to_owned()), |(generation, stored)| (generation, stored.hash));
    if core.accounts.passwords.verify(requester, password, hash).await? {
        return Ok(generation);
    }
    Err(ApiError::validation(&[FieldError::new("current_password", "is not your password; type the present one")])
        .into())
}

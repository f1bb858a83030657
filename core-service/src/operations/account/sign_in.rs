//! Begins a session with e-mail and password.

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    accounts::{
        attempts::{self, SIGN_IN_FROM_ADDRESS, SIGN_IN_TO_ACCOUNT},
        passwords::NO_PASSWORD,
        sessions,
    },
    domain::account::User,
    error::{Error, Result},
    figures::SIGN_INS,
    operations::Core,
    store::Consistency,
    tables::account as rows,
};

/// Stands for a user who does not exist.
const NOBODY: &str = "usr_nobody";

/// Begins a session with e-mail and password. Neither the answer nor its time tells whether there is such a user.
///
/// # Errors
/// `SIGN_IN_FAILED`, `RATE_LIMITED`, or when the store does not answer or too many sign in at once.
pub async fn sign_in(core: &Core, address: Option<&str>, message: &v1::SignInRequest) -> Result<v1::SignInResponse> {
    let outcome = try_to_sign_in(core, address, message).await;
    let told = outcome.as_ref().map_or_else(
        |error| match error.api.code {
            ErrorCode::SignInFailed => "failed",
            ErrorCode::RateLimited => "limited",
            _ => "error",
        },
        |_| "succeeded",
    );
    SIGN_INS.at(told).increment(1);
    outcome
}

async fn try_to_sign_in(core: &Core, address: Option<&str>, message: &v1::SignInRequest) -> Result<v1::SignInResponse> {
    let shared = &core.shared;
    let from_address = attempts::from_address(shared, &SIGN_IN_FROM_ADDRESS, address).await?;
    // Trying an account that may not be tried is a failure of the address too.
    let of_account = match attempts::of_account(shared, &SIGN_IN_TO_ACCOUNT, &message.email).await {
        Ok(of_account) => of_account,
        Err(error) => {
            if error.api.code.http_status() >= 500 {
                attempts::give_back(shared, from_address).await;
            }
            return Err(error);
        }
    };
    let checked = check(core, message).await;
    if !checked.as_ref().is_err_and(|error| error.api.code == ErrorCode::SignInFailed) {
        attempts::give_back(shared, from_address.into_iter().chain([of_account])).await;
    }
    let (user, generation) = checked?;
    let session = sessions::begin(shared, &user, address, message.user_agent.as_deref(), generation).await?;
    Ok(v1::SignInResponse { session: Some(session) })
}

/// The user with this e-mail and password, and the password's generation.
async fn check(core: &Core, message: &v1::SignInRequest) -> Result<(Arc<User>, i64)> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let user = shared.control.state().people().user_by_email(&message.email).cloned();
    let user_id = user.as_ref().map_or(NOBODY, |user| user.id.as_str());
    let password = rows::password(&shared.backend, user_id, Consistency::Quorum).await?;
    let (generation, hash) = match password {
        Some((generation, password)) => (Some(generation), password.hash),
        None => (None, NO_PASSWORD.to_owned()),
    };
    let is_right = core.accounts.passwords.verify(&message.password, hash).await?;
    match (is_right, user, generation) {
        (true, Some(user), Some(generation)) => Ok((user, generation)),
        _ => Err(Error::new(
            ErrorCode::SignInFailed,
            "e-mail or password is wrong; try again, or ask for a new password",
        )),
    }
}

//! Starts a session with e-mail and password, or a challenge for a user with a second factor. Neither the response nor
//! its duration reveals whether the user exists.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, v1};

use super::reset_password::confirm_by_link;
use crate::{
    accounts::{
        attempts::{self, SIGN_INS_OF_ACCOUNT},
        factors::{self, ChallengePurpose, new_challenge},
        known::{Origin, is_new_device},
        notices::{self, Notice},
        passwords::{NO_PASSWORD, Requester},
        sessions,
    },
    domain::account::{User, folded_email},
    error::{Error, Result},
    metrics::SIGN_INS,
    service::Core,
    store::Consistency,
    tables::account::{self as rows, Password},
};

/// Id in place of a user who does not exist.
const NOBODY: &str = "usr_nobody";

pub async fn sign_in(core: &Core, address: Option<&str>, message: &v1::SignInRequest) -> Result<v1::SignInResponse> {
    let outcome = try_to_sign_in(core, address, message).await;
    let label = outcome.as_ref().map_or_else(
        |error| match error.api.code {
            ErrorCode::SignInFailed => "failed",
            ErrorCode::RateLimited => "limited",
            _ => "error",
        },
        |_| "succeeded",
    );
    SIGN_INS.at(label).increment(1);
    outcome
}

async fn try_to_sign_in(core: &Core, address: Option<&str>, message: &v1::SignInRequest) -> Result<v1::SignInResponse> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let user = shared.control.state().people().user_by_email(&message.email).cloned();
    let user_id = user.as_ref().map_or(NOBODY, |user| user.id.as_str());
    let (password, known, factors) = rows::sign_in_rows(&shared.backend, user_id).await?;
    let from = (address, message.device.as_deref());
    let origin = Origin::new(&shared.keys, user_id, from, &known, shared.clock.now_ms());
    let tries = attempts::of_sign_in(shared, &message.email, &origin, address).await?;
    let ends_memberships = password.as_ref().is_some_and(|(_, password)| password.ends_memberships);
    let (user, generation) = match check(core, message, (&origin, address), user, password).await {
        Ok(found) => found,
        Err(error) => {
            if error.api.code != ErrorCode::SignInFailed {
                attempts::give_back(shared, tries).await;
            }
            return Err(error);
        }
    };
    let account = attempts::account(shared, &message.email);
    if let Err(error) = attempts::reserve(shared, &SIGN_INS_OF_ACCOUNT, &account).await {
        // Above this limit the right password counts as a wrong one, so that soon no more passwords are hashed.
        if error.api.code != ErrorCode::RateLimited {
            attempts::give_back(shared, tries).await;
        }
        return Err(error);
    }
    attempts::give_back(shared, tries).await;
    // A core may have crashed between the new password and the change that follows it.
    let (user, factors) = if ends_memberships && !user.is_confirmed() {
        let user = Arc::new(confirm_by_link(core, &user, address, true).await?);
        let (_, factors) = rows::factors(&shared.backend, &user.id, Consistency::Quorum).await?;
        (user, factors)
    } else {
        (user, factors)
    };
    if factors.are_required() {
        let challenge = new_challenge(shared, &user.id, &ChallengePurpose::SignIn(generation));
        return Ok(v1::SignInResponse { session: None, challenge });
    }
    if user.second_factor {
        // Repeats the copy in the control log: a core may have crashed after it wrote the row of the factors.
        factors::publish(shared, &user.id, &sessions::actor(&user, address), false).await?;
    }
    let session = sessions::begin(shared, &user, from, message.user_agent.as_deref(), generation).await?;
    if is_new_device(&origin, &known) {
        notices::post(&core.accounts, shared, &user, Notice::NewDevice, address).await;
    }
    Ok(v1::SignInResponse { session: Some(session), challenge: String::new() })
}

/// Returns the user if the password is right, and the generation of the password.
async fn check(
    core: &Core,
    message: &v1::SignInRequest,
    (origin, address): (&Origin, Option<&str>),
    user: Option<Arc<User>>,
    password: Option<(i64, Password)>,
) -> Result<(Arc<User>, i64)> {
    let (generation, hash) = match password {
        Some((generation, password)) => (Some(generation), password.hash),
        None => (None, NO_PASSWORD.to_owned()),
    };
    let mut subject = folded_email(&message.email);
    // Attempts of strangers do not use up this limit. All devices of an account share it, or the account could fill the
    // queue.
    match origin {
        Origin::Device(_) => subject.push_str("/devices"),
        Origin::Network { is_known: true, .. } => subject.push_str("/networks"),
        Origin::Network { is_known: false, .. } => {}
    }
    let address = address.filter(|_| !matches!(origin, Origin::Device(_)));
    let requester = Requester { subject: &subject, address, is_known: origin.is_known() };
    let is_right = core.accounts.passwords.verify(requester, &message.password, hash).await?;
    match (is_right, user, generation) {
        (true, Some(user), Some(generation)) => Ok((user, generation)),
        _ => Err(Error::new(
            ErrorCode::SignInFailed,
            "e-mail or password is wrong; try again, or ask for a new password",
        )),
    }
}

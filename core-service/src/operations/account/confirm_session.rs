//! Proves the password or a second factor again, for sensitive changes in the session.

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    accounts::{
        Person,
        attempts::{self, PASSWORD_IN_SESSION},
        factors::{self, ChallengePurpose, challenge_of, wrong_proof},
        passwords::{NO_PASSWORD, Requester},
        sessions,
    },
    error::Result,
    operations::admin::invalid,
    service::Core,
    store::Consistency,
    tables::account as rows,
};

pub async fn confirm_session(
    core: &Core,
    person: &Person,
    message: &v1::ConfirmSessionRequest,
) -> Result<v1::ConfirmSessionResponse> {
    match &message.password {
        Some(password) => prove_password(core, person, password).await?,
        None => prove_factor(core, person, message).await?,
    }
    sessions::confirm(&core.shared, person).await?;
    Ok(v1::ConfirmSessionResponse {})
}

async fn prove_password(core: &Core, person: &Person, password: &str) -> Result<()> {
    let shared = &core.shared;
    let reserved = attempts::reserve(shared, &PASSWORD_IN_SESSION, &person.session_id).await?;
    let outcome = check_password(core, person, password).await;
    let is_wrong = outcome.as_ref().is_err_and(|error| error.api.code == ErrorCode::ValidationFailed);
    if !is_wrong {
        attempts::give_back(shared, [reserved]).await;
    }
    outcome
}

async fn check_password(core: &Core, person: &Person, password: &str) -> Result<()> {
    let user_id = &person.user.id;
    let requester = Requester { subject: user_id, address: person.actor.address.as_deref(), is_known: true };
    let stored = rows::password(&core.shared.backend, user_id, Consistency::Quorum).await?;
    let present = stored.map_or_else(|| NO_PASSWORD.to_owned(), |(_, stored)| stored.hash);
    if core.accounts.passwords.verify(requester, password, present).await? {
        return Ok(());
    }
    Err(invalid("password", "is not your password; type the present one"))
}

async fn prove_factor(core: &Core, person: &Person, message: &v1::ConfirmSessionRequest) -> Result<()> {
    let shared = &core.shared;
    let purpose = ChallengePurpose::Confirmation(person.session_id.clone());
    let challenge = challenge_of(shared, person, message.challenge.as_deref().unwrap_or_default(), &purpose)?;
    let proof = message.proof.clone().unwrap_or_default();
    let proven = factors::prove(&core.accounts, shared, &challenge, &proof, &person.actor).await?;
    proven.map(drop).ok_or_else(|| wrong_proof(&proof))
}

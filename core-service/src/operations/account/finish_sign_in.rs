//! Starts the session of a user with a second factor. The challenge proves that the password was right.

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    accounts::{
        factors::{self, ChallengePurpose, ProofKind, challenge_over, read_challenge},
        known::{Origin, is_new_device},
        notices::{self, Notice},
        sessions,
    },
    error::{Error, Result},
    metrics::SIGN_INS,
    service::Core,
    tables::account as rows,
};

pub async fn finish_sign_in(
    core: &Core,
    address: Option<&str>,
    message: &v1::FinishSignInRequest,
) -> Result<v1::FinishSignInResponse> {
    let (accounts, shared) = (&core.accounts, &core.shared);
    let challenge = read_challenge(shared, &message.challenge).ok_or_else(challenge_over)?;
    let ChallengePurpose::SignIn(generation) = challenge.purpose else { return Err(challenge_over()) };
    shared.control.refresh().await?;
    let user = shared.control.state().people().user(&challenge.user_id).cloned().ok_or_else(challenge_over)?;
    let (actor, proof) = (sessions::actor(&user, address), message.proof.clone().unwrap_or_default());
    let Some(kind) = factors::prove(accounts, shared, &challenge, &proof, &actor).await? else {
        SIGN_INS.at("failed").increment(1);
        let text = "this is wrong or was used before; try again, or use another factor";
        return Err(Error::new(ErrorCode::SignInFailed, text));
    };
    if !user.second_factor {
        // Repeats the copy in the control log: a core may have crashed after it wrote the row of the factors.
        factors::publish(shared, &user.id, &actor, true).await?;
    }
    let (_, known, _) = rows::sign_in_rows(&shared.backend, &user.id).await?;
    let from = (address, message.device.as_deref());
    let origin = Origin::new(&shared.keys, &user.id, from, &known, shared.clock.now_ms());
    let session = sessions::begin(shared, &user, from, message.user_agent.as_deref(), generation).await?;
    if kind == ProofKind::RecoveryCode {
        notices::post(accounts, shared, &user, Notice::RecoveryCodeUsed, address).await;
    }
    if is_new_device(&origin, &known) {
        notices::post(accounts, shared, &user, Notice::NewDevice, address).await;
    }
    Ok(v1::FinishSignInResponse { session: Some(session) })
}

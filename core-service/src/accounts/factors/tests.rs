//! The life of a second factor, from registration to sign-in, on two cores.

use std::sync::Arc;

use super::{passkeys::tests::Authenticator, *};
use crate::{
    accounts::sessions::{CONFIRMED_MS, admit, demand_confirmation},
    operations::{
        account::{
            add_passkey::add_passkey, add_totp::add_totp, begin_confirmation::begin_confirmation,
            begin_passkey::begin_passkey, begin_totp::begin_totp, confirm_session::confirm_session,
            create_recovery_codes::create_recovery_codes, finish_sign_in::finish_sign_in,
            get_factor_challenge::get_factor_challenge, list_factors::list_factors, remove_factor::remove_factor,
            require_second_factor::require_second_factor, reset_password::reset_password, sign_in::sign_in,
            sign_up::sign_up,
        },
        admin::{create_reset_link::create_reset_link, remove_second_factors::remove_second_factors},
    },
    service::Core,
    tests::harness::{ManualClock, core, shared_memory},
};

const EMAIL: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery";
const STEP_MS: i64 = 30_000;

async fn two() -> (Arc<ManualClock>, [Arc<Core>; 2]) {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let cores = [core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await];
    (clock, cores)
}

/// Advances the clock. Both cores follow the control log to the new time.
async fn advance(clock: &ManualClock, cores: [&Core; 2], ms: i64) {
    clock.advance(ms);
    for core in cores {
        core.shared.control.refresh().await.unwrap();
    }
}

async fn person(core: &Core, session: Option<v1::NewSession>) -> Person {
    admit(&core.shared, Some(&session.unwrap().token), None).await.unwrap()
}

async fn signed_up(core: &Core) -> (Person, String) {
    let request = v1::SignUpRequest {
        email: EMAIL.to_owned(),
        password: PASSWORD.to_owned(),
        organization_name: "Engines".to_owned(),
        user_agent: None,
    };
    let answer = sign_up(core, None, &request).await.unwrap();
    (person(core, answer.session).await, answer.organization.unwrap().id)
}

async fn try_sign_in(core: &Core) -> v1::SignInResponse {
    let (email, password) = (EMAIL.to_owned(), PASSWORD.to_owned());
    sign_in(core, None, &v1::SignInRequest { email, password, user_agent: None, device: None }).await.unwrap()
}

async fn finish(core: &Core, challenge: &str, proof: v1::FactorProof) -> Result<v1::FinishSignInResponse> {
    let challenge = challenge.to_owned();
    let request = v1::FinishSignInRequest { challenge, proof: Some(proof), user_agent: None, device: None };
    finish_sign_in(core, None, &request).await
}

fn code_proof(secret: &[u8], now_ms: i64) -> v1::FactorProof {
    v1::FactorProof { code: Some(totp::code(secret, now_ms / STEP_MS)), ..v1::FactorProof::default() }
}

fn recovery_proof(code: &str) -> v1::FactorProof {
    v1::FactorProof { recovery_code: Some(code.to_owned()), ..v1::FactorProof::default() }
}

fn error_code<T>(outcome: Result<T>) -> Option<ErrorCode> {
    outcome.err().map(|error| error.api.code)
}

/// Adds an authenticator app. Returns its secret and the recovery codes.
async fn with_totp(core: &Core, person: &Person) -> (Vec<u8>, Vec<String>) {
    begin_totp(core, person, &v1::BeginTotpRequest {}).await.unwrap();
    let (_, row) = rows::factors(&core.shared.backend, &person.user.id, Consistency::Quorum).await.unwrap();
    let purpose = SealPurpose::TotpSecret(&person.user.id);
    let secret = core.shared.keys.open(purpose, &row.new_totp.unwrap().secret).unwrap();
    let wrong = v1::AddTotpRequest { code: "000000".to_owned() };
    let right = v1::AddTotpRequest { code: totp::code(&secret, person.now_ms / STEP_MS) };
    if wrong != right {
        assert_eq!(error_code(add_totp(core, person, &wrong).await), Some(ErrorCode::ValidationFailed));
    }
    let codes = add_totp(core, person, &right).await.unwrap().recovery_codes;
    assert_eq!(codes.len(), RECOVERY_CODES);
    (secret, codes)
}

#[tokio::test]
async fn a_code_is_needed_after_the_password_and_works_once() {
    let (clock, [one, other]) = two().await;
    let (person, _) = signed_up(&one).await;
    let (secret, codes) = with_totp(&one, &person).await;
    let answer = try_sign_in(&other).await;
    assert!(answer.session.is_none());
    let read = v1::GetFactorChallengeRequest { challenge: answer.challenge.clone() };
    let found = get_factor_challenge(&one, None, &read).await.unwrap();
    assert!(found.totp && found.recovery_codes && found.passkeys.is_empty());
    // The code that registered the app is used up.
    let now_ms = other.shared.clock.now_ms();
    let used = finish(&one, &answer.challenge, code_proof(&secret, now_ms)).await;
    assert_eq!(error_code(used), Some(ErrorCode::SignInFailed));
    advance(&clock, [&one, &other], STEP_MS).await;
    let now_ms = other.shared.clock.now_ms();
    let session = finish(&one, &answer.challenge, code_proof(&secret, now_ms)).await.unwrap().session;
    assert!(admit(&other.shared, Some(&session.unwrap().token), None).await.unwrap().user.second_factor);
    // Neither the challenge nor the code works again.
    let again = recovery_proof(&codes[0]);
    assert_eq!(error_code(finish(&other, &answer.challenge, again).await), Some(ErrorCode::SignInFailed));
    let next = try_sign_in(&one).await.challenge;
    let replayed = finish(&other, &next, code_proof(&secret, now_ms)).await;
    assert_eq!(error_code(replayed), Some(ErrorCode::SignInFailed));
    // A recovery code works once, in any spelling.
    let written = codes[0].to_uppercase().replace('-', " ");
    finish(&other, &next, recovery_proof(&written)).await.unwrap();
    let next = try_sign_in(&one).await.challenge;
    assert_eq!(error_code(finish(&one, &next, recovery_proof(&codes[0])).await), Some(ErrorCode::SignInFailed));
    finish(&one, &next, recovery_proof(&codes[1])).await.unwrap();
    // A challenge expires after ten minutes, and one with another purpose never works here.
    let late = try_sign_in(&one).await.challenge;
    advance(&clock, [&one, &other], CHALLENGE_MS).await;
    assert_eq!(error_code(finish(&one, &late, recovery_proof(&codes[2])).await), Some(ErrorCode::SignInFailed));
    let foreign = begin_confirmation(&one, &person, &v1::BeginConfirmationRequest {}).await.unwrap().challenge;
    assert_eq!(error_code(finish(&one, &foreign, recovery_proof(&codes[2])).await), Some(ErrorCode::SignInFailed));
}

#[tokio::test]
async fn ten_wrong_codes_end_the_tries_and_a_passkey_still_works() {
    let (_clock, [one, other]) = two().await;
    let (person, _) = signed_up(&one).await;
    with_totp(&one, &person).await;
    let begun = begin_passkey(&one, &person, &v1::BeginPasskeyRequest {}).await.unwrap();
    assert_eq!((begun.host.as_str(), begun.known.len()), ("localhost", 0));
    let mut own = Authenticator::new(b"one", one.accounts.passkey_site.as_ref().unwrap());
    let (client_data, data) = own.register(&begun.challenge);
    let request = v1::AddPasskeyRequest {
        challenge: begun.challenge,
        name: "laptop".to_owned(),
        client_data: client_data.into(),
        authenticator_data: data.into(),
    };
    let added = add_passkey(&other, &person, &request).await.unwrap();
    assert!(added.recovery_codes.is_empty() && added.passkey.unwrap().used_at.is_none());
    assert_eq!(error_code(add_passkey(&one, &person, &request).await), Some(ErrorCode::SignInFailed), "used");
    let challenge = try_sign_in(&one).await.challenge;
    let mut codes = Vec::new();
    for _ in 0..11 {
        codes.push(error_code(finish(&one, &challenge, recovery_proof("wrong")).await));
    }
    // The wrong code at the registration counts too.
    assert!(codes[..9].iter().all(|code| *code == Some(ErrorCode::SignInFailed)), "{codes:?}");
    assert_eq!(codes[10], Some(ErrorCode::RateLimited));
    let proof = |(client_data, data, signature): (Vec<u8>, Vec<u8>, Vec<u8>)| {
        let passkey = v1::PasskeyAssertion {
            credential_id: b"one".as_slice().into(),
            client_data: client_data.into(),
            authenticator_data: data.into(),
            signature: signature.into(),
        };
        v1::FactorProof { passkey: Some(passkey), ..v1::FactorProof::default() }
    };
    let foreign = proof(own.sign("another challenge"));
    assert_eq!(error_code(finish(&other, &challenge, foreign).await), Some(ErrorCode::SignInFailed));
    finish(&other, &challenge, proof(own.sign(&challenge))).await.unwrap();
    // A copied authenticator continues from the count at the time of the copy.
    own.count = 0;
    let next = try_sign_in(&one).await.challenge;
    assert_eq!(error_code(finish(&one, &next, proof(own.sign(&next))).await), Some(ErrorCode::SignInFailed));
}

#[tokio::test]
async fn a_new_password_by_a_link_asks_for_the_factor_and_an_operator_removes_it() {
    let (_clock, [one, other]) = two().await;
    let (person, organization_id) = signed_up(&one).await;
    let require = |required| v1::RequireSecondFactorRequest { organization_id: organization_id.clone(), required };
    let refused = require_second_factor(&one, &person, &require(true)).await;
    assert_eq!(error_code(refused), Some(ErrorCode::SecondFactorRequired), "nobody shuts themselves out");
    let (_, codes) = with_totp(&one, &person).await;
    assert!(require_second_factor(&other, &person, &require(true)).await.is_ok());
    let operator = Actor::operator(None);
    let link = v1::CreateResetLinkRequest { email: EMAIL.to_owned(), keep_memberships: true };
    let link = create_reset_link(&one, &operator, &link).await.unwrap().link;
    let request = v1::ResetPasswordRequest {
        token: link.rsplit_once('/').unwrap().1.to_owned(),
        password: PASSWORD.to_owned(),
        user_agent: None,
    };
    let answer = reset_password(&one, None, &request).await.unwrap();
    assert!(answer.session.is_none());
    let session = finish(&other, &answer.challenge, recovery_proof(&codes[0])).await.unwrap().session;
    let person = self::person(&other, session).await;
    let lost = v1::RemoveSecondFactorsRequest { email: EMAIL.to_owned() };
    let user = remove_second_factors(&one, &operator, &lost).await.unwrap().user.unwrap();
    assert!(!user.second_factor && try_sign_in(&other).await.session.is_some());
    // A member without a second factor cannot open the organization.
    let closed = require_second_factor(&other, &person, &require(false)).await;
    assert_eq!(error_code(closed), Some(ErrorCode::SecondFactorRequired));
}

#[tokio::test]
async fn the_owner_of_an_address_gets_no_factor_of_a_stranger() {
    let (_clock, [one, other]) = two().await;
    let (stranger, _) = signed_up(&one).await;
    with_totp(&one, &stranger).await;
    let link = v1::CreateResetLinkRequest { email: EMAIL.to_owned(), keep_memberships: false };
    let link = create_reset_link(&one, &Actor::operator(None), &link).await.unwrap().link;
    let request = v1::ResetPasswordRequest {
        token: link.rsplit_once('/').unwrap().1.to_owned(),
        password: PASSWORD.to_owned(),
        user_agent: None,
    };
    let answer = reset_password(&other, None, &request).await.unwrap();
    let owner = person(&other, answer.session).await;
    assert!(owner.user.is_confirmed() && !owner.user.second_factor);
    let left = list_factors(&one, &owner, &v1::ListFactorsRequest {}).await.unwrap();
    assert!(left.totp_since.is_none() && left.recovery_codes == 0);
    assert!(try_sign_in(&one).await.session.is_some());
    // The factors of a confirmed user stay.
    let (_, codes) = with_totp(&one, &owner).await;
    let challenge = try_sign_in(&other).await.challenge;
    assert!(finish(&other, &challenge, recovery_proof(&codes[0])).await.is_ok());
}

#[tokio::test]
async fn a_proof_confirms_the_session_for_a_while() {
    let (clock, [one, other]) = two().await;
    let (first, _) = signed_up(&one).await;
    let (secret, _) = with_totp(&one, &first).await;
    advance(&clock, [&one, &other], CONFIRMED_MS).await;
    let again = || async {
        let state = other.shared.control.state().people().user(&first.user.id).cloned().unwrap();
        let now_ms = other.shared.clock.now_ms();
        let found = rows::session(&other.shared.backend, &state.id, &first.session_id).await.unwrap().unwrap();
        let confirmed_at = found.1.session.confirmed_at;
        Person { now_ms, confirmed_at, ..first.clone() }
    };
    let person = again().await;
    assert_eq!(error_code(demand_confirmation(&person)), Some(ErrorCode::ConfirmationRequired));
    let wrong = v1::ConfirmSessionRequest { password: Some("wrong horse".to_owned()), ..Default::default() };
    assert_eq!(error_code(confirm_session(&other, &person, &wrong).await), Some(ErrorCode::ValidationFailed));
    assert!(demand_confirmation(&again().await).is_err());
    let right = v1::ConfirmSessionRequest { password: Some(PASSWORD.to_owned()), ..Default::default() };
    confirm_session(&one, &person, &right).await.unwrap();
    assert!(demand_confirmation(&again().await).is_ok());
    advance(&clock, [&one, &other], CONFIRMED_MS).await;
    let person = again().await;
    let begun = begin_confirmation(&one, &person, &v1::BeginConfirmationRequest {}).await.unwrap();
    let proof = Some(code_proof(&secret, person.now_ms));
    let by_code = v1::ConfirmSessionRequest { password: None, challenge: Some(begun.challenge), proof };
    confirm_session(&one, &person, &by_code).await.unwrap();
    assert!(demand_confirmation(&again().await).is_ok());
    // New recovery codes replace the old ones; without a factor there are none.
    let person = again().await;
    let codes = create_recovery_codes(&one, &person, &v1::CreateRecoveryCodesRequest {}).await.unwrap();
    assert_eq!(codes.recovery_codes.len(), RECOVERY_CODES);
    remove_factor(&one, &person, &v1::RemoveFactorRequest { id: "totp".to_owned() }).await.unwrap();
    let left = list_factors(&other, &person, &v1::ListFactorsRequest {}).await.unwrap();
    assert!(left.totp_since.is_none() && left.recovery_codes == 0 && left.may_add_passkey);
    let none = create_recovery_codes(&other, &person, &v1::CreateRecoveryCodesRequest {}).await;
    assert_eq!(error_code(none), Some(ErrorCode::ValidationFailed));
    assert!(try_sign_in(&other).await.session.is_some());
}

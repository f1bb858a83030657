//! Second factors, at every core.

use ring::hmac;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{self, Role},
};

use super::everywhere;
use crate::harness::{
    Person, Service, now_ms,
    person::{patiently, refused},
};

on_both_stores![a_second_factor_guards_the_sign_in, an_organization_demands_a_second_factor];

const STEP_MS: i64 = 30_000;

/// The bytes of a text in Base32.
fn bytes_of(base32: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => u64::from(letter - b'A'),
        _ => u64::from(letter - b'2') + 26,
    };
    let chunk = |letters: &[u8]| letters.iter().fold(0, |sum, letter| (sum << 5) | digit(*letter)).to_be_bytes();
    base32.as_bytes().chunks(8).flat_map(|letters| chunk(letters)[3..].to_vec()).collect()
}

/// The code that an authenticator app shows at a time.
pub(crate) fn code(secret: &str, at_ms: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes_of(secret));
    let tag = hmac::sign(&key, &(at_ms / STEP_MS).to_be_bytes());
    let start = usize::from(tag.as_ref()[19] & 15);
    let number = u32::from_be_bytes(tag.as_ref()[start..start + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

/// Adds an authenticator app. Returns its secret and the recovery codes.
pub(crate) async fn add_app(person: &Person) -> (String, Vec<String>) {
    let begun = person.ask().begin_totp(v1::BeginTotpRequest {}).await.unwrap().into_inner();
    assert!(begun.uri.starts_with("otpauth://totp/") && begun.uri.contains(&begun.secret), "{}", begun.uri);
    refused(person.ask().add_totp(v1::AddTotpRequest { code: "x".to_owned() }).await, ErrorCode::ValidationFailed);
    let request = v1::AddTotpRequest { code: code(&begun.secret, now_ms()) };
    let added = person.ask().add_totp(request).await.unwrap().into_inner();
    (begun.secret, added.recovery_codes)
}

/// Signs in with the password, which must not be enough. Returns the challenge.
async fn challenge(person: &Person) -> String {
    let request = v1::SignInRequest {
        email: person.email.clone(),
        password: person.password.clone(),
        user_agent: None,
        device: None,
    };
    let answer = patiently(async || person.ask().sign_in(request.clone()).await).await.unwrap();
    assert!(answer.session.is_none() && !answer.challenge.is_empty());
    answer.challenge
}

async fn finish(person: &Person, challenge: &str, proof: v1::FactorProof) -> Result<String, ApiError> {
    let request =
        v1::FinishSignInRequest { challenge: challenge.to_owned(), proof: Some(proof), user_agent: None, device: None };
    let answer = person.ask().finish_sign_in(request).await.map_err(|status| ApiError::from_status(&status))?;
    Ok(answer.into_inner().session.unwrap().token)
}

fn recovery(code: &str) -> v1::FactorProof {
    v1::FactorProof { recovery_code: Some(code.to_owned()), ..v1::FactorProof::default() }
}

async fn a_second_factor_guards_the_sign_in(service: &Service) {
    let (owner, _) = service.owner().await;
    let (secret, codes) = add_app(&owner).await;
    assert_eq!(codes.len(), 10);
    let mut visitor = owner.elsewhere();
    let token = challenge(&visitor).await;
    let wrong = finish(&visitor, &token, recovery("00000-00000")).await.unwrap_err();
    assert_eq!(wrong.code, ErrorCode::SignInFailed);
    // The app's next code: the code of its registration is used up.
    let next = v1::FactorProof { code: Some(code(&secret, now_ms() + STEP_MS)), ..v1::FactorProof::default() };
    visitor.session = Some(finish(&visitor, &token, next.clone()).await.unwrap());
    for _ in &service.cores {
        assert!(visitor.is_signed_in().await);
    }
    // No core accepts a challenge, a code or a recovery code twice.
    for _ in &service.cores {
        assert_eq!(finish(&visitor, &token, recovery(&codes[0])).await.unwrap_err().code, ErrorCode::SignInFailed);
    }
    let token = challenge(&visitor).await;
    assert_eq!(finish(&visitor, &token, next).await.unwrap_err().code, ErrorCode::SignInFailed);
    finish(&visitor, &token, recovery(&codes[0])).await.unwrap();
    let (one, other) = (challenge(&visitor).await, challenge(&visitor).await);
    let (one, other) =
        tokio::join!(finish(&visitor, &one, recovery(&codes[1])), finish(&visitor, &other, recovery(&codes[1])));
    assert_eq!([&one, &other].into_iter().filter(|outcome| outcome.is_ok()).count(), 1, "{one:?} {other:?}");
    // An operator helps a user who has lost all factors.
    let lost = v1::RemoveSecondFactorsRequest { email: owner.email.clone() };
    service.admin().remove_second_factors(lost).await.unwrap();
    visitor.sign_in().await.unwrap();
}

async fn an_organization_demands_a_second_factor(service: &Service) {
    let (owner, organization) = service.owner().await;
    let member = service.member(&owner, &organization, Role::Developer).await;
    let project = owner.project(&organization, "Hive").await.id;
    let (_, raw) = member.key(&project, v1::Environment::Test).await;
    let require = |required| v1::RequireSecondFactorRequest { organization_id: organization.clone(), required };
    refused(owner.ask().require_second_factor(require(true)).await, ErrorCode::SecondFactorRequired);
    add_app(&owner).await;
    refused(member.ask().require_second_factor(require(true)).await, ErrorCode::InsufficientRole);
    let changed = owner.ask().require_second_factor(require(true)).await.unwrap().into_inner().organization.unwrap();
    assert!(changed.requires_second_factor);
    let list = || v1::AccountServiceListProjectsRequest { organization_id: organization.clone() };
    for _ in &service.cores {
        refused(member.ask().list_projects(list()).await, ErrorCode::SecondFactorRequired);
        assert_eq!(owner.projects(&organization).await.len(), 1);
    }
    // API keys need no second factor.
    everywhere(service, &raw, "the key works", |answer| answer.status == 200).await;
    let members = owner.members(&organization).await;
    let with_factor = members.iter().filter(|row| row.user.as_ref().unwrap().second_factor);
    assert_eq!(with_factor.count(), 1);
    add_app(&member).await;
    for _ in &service.cores {
        member.ask().list_projects(list()).await.unwrap();
    }
}

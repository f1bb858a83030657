//! Second factors: authenticator apps, passkeys and recovery codes.
//!
//! A user who has to prove a factor gets a challenge: a signed text that names the user and the purpose. A challenge,
//! a code of an app and a recovery code each work once. The row of the user's factors lists the used challenges until
//! they expire. Every write of the row is conditional on its version, so this holds on several cores.
//!
//! The row decides whether a sign-in needs a factor. The user in the control log has a copy of that
//! (`second_factor`), by which organizations require one. The row is written first. If a core crashes before it writes
//! the copy, the next sign-in writes it.

pub mod passkeys;
pub mod totp;

use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1,
};

use super::{
    Accounts, Person,
    attempts::{self, CODES_OF_USER},
    sessions::audit_row,
};
use crate::{
    control::ControlState,
    domain::{
        account::{Actor, User},
        control::ControlChange,
        id,
        window::MINUTE_MS,
    },
    error::{Error, Result},
    keys::key_ring::SealPurpose,
    shared::Shared,
    store::{Consistency, StoreError},
    tables::account::{self as rows, Factors, UsedChallenge},
};

use self::passkeys::{Assertion, PublicKey};

/// Lifetime of a challenge, in seconds and in milliseconds.
const CHALLENGE_SECONDS: u32 = 600;
const CHALLENGE_MS: i64 = 10 * MINUTE_MS;
/// Maximum number of challenges that a user can use within the lifetime of one: the row lists them.
const MAX_USED_CHALLENGES: usize = 100;
/// Maximum number of passkeys of a user.
pub const MAX_PASSKEYS: usize = 10;
pub const RECOVERY_CODES: usize = 10;
/// Characters of a recovery code: 50 bits.
const CODE_LENGTH: usize = 10;
/// Alphabet of recovery codes: no two of its characters look alike.
const CODE_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Maximum number of tries while the factors of the same user change concurrently.
const MAX_ROUNDS: usize = 20;

/// The purpose of a challenge, with the sign-in or session to which it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengePurpose {
    /// A sign-in with the password of this generation.
    SignIn(i64),
    /// The confirmation of the session with this id.
    Confirmation(String),
    /// The registration of a passkey in the session with this id.
    Registration(String),
}

/// A challenge that this service issued and that has not expired. It may have been used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The whole text, which a passkey signs.
    pub token: String,
    pub user_id: String,
    pub purpose: ChallengePurpose,
    nonce: String,
    expires_at: i64,
}

impl ChallengePurpose {
    fn words(&self) -> (&'static str, String) {
        match self {
            Self::SignIn(generation) => ("sign-in", generation.to_string()),
            Self::Confirmation(session_id) => ("confirmation", session_id.clone()),
            Self::Registration(session_id) => ("registration", session_id.clone()),
        }
    }

    fn parse(word: &str, bound: &str) -> Option<Self> {
        match word {
            "sign-in" => bound.parse().ok().map(Self::SignIn),
            "confirmation" => Some(Self::Confirmation(bound.to_owned())),
            "registration" => Some(Self::Registration(bound.to_owned())),
            _ => None,
        }
    }
}

/// Creates the text of a challenge. None of its parts contains a dot.
pub fn new_challenge(shared: &Shared, user_id: &str, purpose: &ChallengePurpose) -> String {
    let (nonce, expires_at) = (id::random("", shared.ids.as_ref()), shared.clock.now_ms() + CHALLENGE_MS);
    let (word, bound) = purpose.words();
    shared.keys.link_token(&format!("factor.{word}.{user_id}.{bound}.{expires_at}.{nonce}"))
}

/// Reads a challenge; none if it has expired or is not whole.
pub fn read_challenge(shared: &Shared, token: &str) -> Option<Challenge> {
    let text = shared.keys.read_link(token)?;
    let parts: Vec<&str> = text.strip_prefix("factor.")?.split('.').collect();
    let &[word, user_id, bound, expires_at, nonce] = parts.as_slice() else { return None };
    let expires_at = expires_at.parse::<i64>().ok().filter(|end| shared.clock.now_ms() < *end)?;
    Some(Challenge {
        token: token.to_owned(),
        user_id: user_id.to_owned(),
        purpose: ChallengePurpose::parse(word, bound)?,
        nonce: nonce.to_owned(),
        expires_at,
    })
}

/// Creates new recovery codes.
pub fn new_recovery_codes(shared: &Shared) -> Vec<String> {
    let code = || {
        let mut bytes = [0; CODE_LENGTH];
        shared.ids.fill(&mut bytes);
        let letters = bytes.map(|byte| char::from(CODE_ALPHABET[usize::from(byte % 32)]));
        let (one, other) = letters.split_at(CODE_LENGTH / 2);
        format!("{}-{}", one.iter().collect::<String>(), other.iter().collect::<String>())
    };
    (0..RECOVERY_CODES).map(|_| code()).collect()
}

/// The stored hash of a recovery code: case, spaces and hyphens of the typed code do not matter.
pub fn recovery_hash(shared: &Shared, user_id: &str, code: &str) -> String {
    let letters = code.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    shared.keys.known_hash(user_id, &format!("recovery code {plain}"))
}

/// The error for a challenge that was used, has expired, or has another purpose.
pub fn challenge_over() -> Error {
    Error::new(ErrorCode::SignInFailed, "this took too long or was done before; start again")
}

/// The kind of proof in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKind {
    Code,
    RecoveryCode,
    Passkey,
}

/// True if a challenge was used.
pub fn is_used(factors: &Factors, challenge: &Challenge) -> bool {
    factors.used_challenges.iter().any(|used| used.nonce == challenge.nonce)
}

/// Records the use of a challenge, and forgets expired ones. Fails if the row has too many.
fn record_use(factors: &mut Factors, challenge: &Challenge, now_ms: i64) -> Result<()> {
    factors.used_challenges.retain(|used| now_ms < used.expires_at);
    if factors.used_challenges.len() >= MAX_USED_CHALLENGES {
        let error = ApiError::new(ErrorCode::RateLimited, "you proved a second factor too often; wait ten minutes");
        return Err(error.with_retry_after(CHALLENGE_SECONDS).into());
    }
    let (nonce, expires_at) = (challenge.nonce.clone(), challenge.expires_at);
    factors.used_challenges.push(UsedChallenge { nonce, expires_at });
    Ok(())
}

/// Applies a proof to the factors. Returns its kind; a wrong proof changes nothing and gives none.
fn apply_proof(
    accounts: &Accounts,
    shared: &Shared,
    challenge: &Challenge,
    proof: &v1::FactorProof,
    factors: &mut Factors,
) -> Option<ProofKind> {
    let now_ms = shared.clock.now_ms();
    let user_id = &challenge.user_id;
    if let Some(code) = &proof.code {
        let totp = factors.totp.as_mut()?;
        let secret = shared.keys.open(SealPurpose::TotpSecret(user_id), &totp.secret)?;
        totp.last_step = totp::matching_step(&secret, code, now_ms, totp.last_step)?;
        return Some(ProofKind::Code);
    }
    if let Some(code) = &proof.recovery_code {
        let hash = recovery_hash(shared, user_id, code);
        let at = factors.recovery_codes.iter().position(|one| *one == hash)?;
        factors.recovery_codes.remove(at);
        return Some(ProofKind::RecoveryCode);
    }
    let given = proof.passkey.as_ref()?;
    let site = accounts.passkey_site.as_ref()?;
    let passkey = factors.passkeys.iter_mut().find(|one| one.credential_id == given.credential_id)?;
    let key = PublicKey { algorithm: passkey.algorithm, bytes: passkey.public_key.to_vec() };
    let assertion = Assertion {
        client_data: &given.client_data,
        authenticator_data: &given.authenticator_data,
        signature: &given.signature,
    };
    let count = passkeys::verify(site, &challenge.token, &key, assertion)?;
    // The count of an authenticator only grows. A count that does not grow means that the authenticator was copied.
    if (count, passkey.count) != (0, 0) && count <= passkey.count {
        return None;
    }
    (passkey.count, passkey.used_at) = (count, Some(now_ms));
    Some(ProofKind::Passkey)
}

/// Verifies the proof of a factor and uses up the challenge. Returns none if the proof is wrong. Wrong codes count
/// against the user's limit.
pub async fn prove(
    accounts: &Accounts,
    shared: &Shared,
    challenge: &Challenge,
    proof: &v1::FactorProof,
    actor: &Actor,
) -> Result<Option<ProofKind>> {
    // Nobody guesses a signature, so strangers who know the password cannot keep the holder of a passkey out.
    let is_guessable = proof.code.is_some() || proof.recovery_code.is_some();
    let reserved =
        if is_guessable { Some(attempts::reserve(shared, &CODES_OF_USER, &challenge.user_id).await?) } else { None };
    let outcome = try_to_prove(accounts, shared, challenge, proof, actor).await;
    if !matches!(outcome, Ok(None)) {
        attempts::give_back(shared, reserved).await;
    }
    outcome
}

async fn try_to_prove(
    accounts: &Accounts,
    shared: &Shared,
    challenge: &Challenge,
    proof: &v1::FactorProof,
    actor: &Actor,
) -> Result<Option<ProofKind>> {
    let mut consistency = Consistency::Quorum;
    for _ in 0..MAX_ROUNDS {
        let (before, mut factors) = rows::factors(&shared.backend, &challenge.user_id, consistency).await?;
        if is_used(&factors, challenge) {
            return Err(challenge_over());
        }
        let Some(kind) = apply_proof(accounts, shared, challenge, proof, &mut factors) else { return Ok(None) };
        record_use(&mut factors, challenge, shared.clock.now_ms())?;
        let used = (kind == ProofKind::RecoveryCode)
            .then(|| audit_row(shared, &actor.does("factor.recovery_code_used").to(&challenge.user_id)));
        let beside = used.into_iter().collect();
        if rows::set_factors(&shared.backend, &challenge.user_id, before, &factors, beside).await? {
            return Ok(Some(kind));
        }
        consistency = Consistency::Serial;
    }
    Err(too_many_changes())
}

fn too_many_changes() -> Error {
    StoreError::Unavailable("too many changes of the factors of one user at once".to_owned()).into()
}

/// Changes the factors of a user, and writes the action to the audit log. The change runs again after a lost race.
pub async fn change<T>(
    shared: &Shared,
    user_id: &str,
    (actor, action): (&Actor, &str),
    change: impl Fn(&mut Factors) -> Result<T>,
) -> Result<(Factors, T)> {
    let mut consistency = Consistency::Quorum;
    for _ in 0..MAX_ROUNDS {
        let (before, present) = rows::factors(&shared.backend, user_id, consistency).await?;
        let mut factors = present.clone();
        let changed = change(&mut factors)?;
        if factors == present {
            return Ok((factors, changed));
        }
        if !factors.are_required() {
            factors.recovery_codes.clear();
        }
        let beside = vec![audit_row(shared, &actor.does(action).to(user_id))];
        if rows::set_factors(&shared.backend, user_id, before, &factors, beside).await? {
            return Ok((factors, changed));
        }
        consistency = Consistency::Serial;
    }
    Err(too_many_changes())
}

/// Removes all second factors of a user. Returns true if the user had any.
pub async fn remove_all(shared: &Shared, user_id: &str, actor: &Actor) -> Result<bool> {
    let remove = |factors: &mut Factors| {
        let had_some = factors.are_required();
        (factors.totp, factors.new_totp) = (None, None);
        factors.passkeys.clear();
        Ok(had_some)
    };
    let (_, had_some) = change(shared, user_id, (actor, "factor.removed"), remove).await?;
    Ok(had_some)
}

/// Uses a challenge for the registration of a passkey.
pub fn use_for_registration(factors: &mut Factors, challenge: &Challenge, now_ms: i64) -> Result<()> {
    if is_used(factors, challenge) {
        return Err(challenge_over());
    }
    record_use(factors, challenge, now_ms)
}

/// Writes to the control log whether a user has a second factor. Repeating it changes nothing.
pub async fn publish(shared: &Shared, user_id: &str, actor: &Actor, second_factor: bool) -> Result<()> {
    let set = |state: &ControlState| {
        let before = state.people().user(user_id).filter(|user| user.second_factor != second_factor);
        let after = before.map(|user| ControlChange::User(User { second_factor, ..User::clone(user) }));
        Ok((after.into_iter().collect(), ()))
    };
    let action = if second_factor { "user.second_factor_set" } else { "user.second_factor_unset" };
    shared.control.change(actor.does(action), set).await
}

/// Reads a challenge, and checks that it was issued to this person for this purpose.
pub fn challenge_of(shared: &Shared, person: &Person, token: &str, purpose: &ChallengePurpose) -> Result<Challenge> {
    let challenge = read_challenge(shared, token).ok_or_else(challenge_over)?;
    if challenge.user_id == person.user.id && challenge.purpose == *purpose {
        return Ok(challenge);
    }
    Err(challenge_over())
}

/// The error for a wrong proof within a session.
pub fn wrong_proof(proof: &v1::FactorProof) -> Error {
    let (param, rule) = match proof {
        v1::FactorProof { code: Some(_), .. } => ("code", "is wrong or was used; type the code that the app shows now"),
        v1::FactorProof { recovery_code: Some(_), .. } => ("recovery_code", "is wrong or was used; type another one"),
        _ => ("passkey", "was not accepted; try again, or use another factor"),
    };
    ApiError::validation(&[FieldError::new(param, rule)]).into()
}

#[cfg(test)]
mod tests;

//! The row of a user's second factors.

use bytes::Bytes;
use prost::Message;

use super::{FACTORS, next_generation, put, write};
use crate::{
    key,
    store::{Change, Consistency, Expect, SharedBackend, StoreResult, schema::ACCOUNT},
    tables::read_message,
};

/// An authenticator app.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Totp {
    /// The secret, encrypted.
    #[prost(bytes = "bytes", tag = "1")]
    pub secret: Bytes,
    #[prost(int64, tag = "2")]
    pub created_at: i64,
    /// The time step of the last used code: each code works once.
    #[prost(int64, tag = "3")]
    pub last_step: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Passkey {
    /// `psk_…`
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    /// The id that its authenticator chose.
    #[prost(bytes = "bytes", tag = "3")]
    pub credential_id: Bytes,
    /// Number of the signature algorithm in the registry of COSE.
    #[prost(int32, tag = "4")]
    pub algorithm: i32,
    /// The public key in the form in which `ring` reads it.
    #[prost(bytes = "bytes", tag = "5")]
    pub public_key: Bytes,
    /// The authenticator's count of signatures; 0 where it counts none.
    #[prost(uint32, tag = "6")]
    pub count: u32,
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    #[prost(int64, optional, tag = "8")]
    pub used_at: Option<i64>,
}

/// A used challenge. It stays here until it expires.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UsedChallenge {
    #[prost(string, tag = "1")]
    pub nonce: String,
    #[prost(int64, tag = "2")]
    pub expires_at: i64,
}

/// The second factors of a user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Factors {
    #[prost(message, optional, tag = "1")]
    pub totp: Option<Totp>,
    /// An authenticator app that is not registered yet.
    #[prost(message, optional, tag = "2")]
    pub new_totp: Option<Totp>,
    #[prost(message, repeated, tag = "3")]
    pub passkeys: Vec<Passkey>,
    /// Keyed hashes of the unused recovery codes.
    #[prost(string, repeated, tag = "4")]
    pub recovery_codes: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub used_challenges: Vec<UsedChallenge>,
}

impl Factors {
    /// True if a sign-in needs more than the password.
    pub fn are_required(&self) -> bool {
        self.totp.is_some() || !self.passkeys.is_empty()
    }
}

/// Reads a user's second factors, with their row's version.
pub async fn factors(
    backend: &SharedBackend,
    user: &str,
    consistency: Consistency,
) -> StoreResult<(Option<i64>, Factors)> {
    let found = read_message(backend, &ACCOUNT, &key![user, FACTORS], consistency, "account").await?;
    Ok(found.map_or_else(Default::default, |(version, factors)| (Some(version), factors)))
}

/// Replaces a user's second factors if their row still has this version, or is new. Returns true if the row was
/// written. The row is never deleted, so no version occurs twice.
pub async fn set_factors(
    backend: &SharedBackend,
    user: &str,
    before: Option<i64>,
    factors: &Factors,
    beside: Vec<Change>,
) -> StoreResult<bool> {
    let expect = before.map_or(Expect::Absent, Expect::Version);
    let writes = vec![put(FACTORS, expect, next_generation(before), factors)];
    write(backend, user, (writes, None), beside).await
}

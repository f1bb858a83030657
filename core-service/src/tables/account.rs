//! The sign-in data of a user: the password, second factors, links for a new password, sessions, and the networks and
//! devices of earlier sign-ins. All rows of a user are in one partition, so they change together.
//!
//! The version of the password's row is its generation. Sessions hold the generation that they began in, so a new
//! password ends them all. Times are unix milliseconds.

mod factor_rows;

use bytes::Bytes;
use prost::Message;

use super::{decode_message, read_message};
use crate::{
    domain::window::DAY_MS,
    key,
    store::{
        Change, ConditionalWrite, Consistency, Expect, Row, Scan, SharedBackend, StoreError, StoreResult, Transaction,
        schema::ACCOUNT,
    },
};

pub use self::factor_rows::{Factors, Passkey, Totp, UsedChallenge, factors, set_factors};

const PASSWORD: &str = "password";
const RESET: &str = "reset";
const KNOWN: &str = "known";
const FACTORS: &str = "factors";
const SESSION: &str = "session/";
const MAX_ROWS: usize = 1_000;
/// Retention time of a session's row after its last write, in days.
const SESSION_DAYS: i64 = 30;
/// Retention time of the row of links after the newest link, in days.
pub const RESET_DAYS: i64 = 2;

/// Days that a network or device of a sign-in stays known. The rows of a sign-in share this time; readers check the end
/// of the session themselves.
pub const KNOWN_DAYS: i64 = 90;

pub const FIRST_GENERATION: i64 = 1;

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Password {
    /// Its hash, with salt and parameters.
    #[prost(string, tag = "1")]
    pub hash: String,
    #[prost(int64, tag = "2")]
    pub changed_at: i64,
    /// True if a link set it that ends the memberships of an unconfirmed user. The control log ends them after this row
    /// is written, so a sign-in finishes that change if a crash came between the two.
    #[prost(bool, tag = "3")]
    pub ends_memberships: bool,
}

/// An open link for a new password.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Reset {
    /// Distinguishes the link from the user's other links.
    #[prost(string, tag = "1")]
    pub nonce: String,
    #[prost(int64, tag = "2")]
    pub expires_at: i64,
    /// Id of the actor who handed it over; none if it was mailed.
    #[prost(string, optional, tag = "3")]
    pub creator: Option<String>,
    /// True if an unconfirmed user keeps the memberships when it is used.
    #[prost(bool, tag = "4")]
    pub keeps_memberships: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Resets {
    /// The links, oldest first. Some may be over.
    #[prost(message, repeated, tag = "1")]
    pub links: Vec<Reset>,
}

/// A network or device from which a user has signed in.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KnownOrigin {
    /// The keyed hash of the network, or of the device's token.
    #[prost(string, tag = "1")]
    pub hash: String,
    #[prost(bool, tag = "2")]
    pub is_device: bool,
    /// The last sign-in from there.
    #[prost(int64, tag = "3")]
    pub used_at: i64,
    /// True once the user has signed in from there more than once.
    #[prost(bool, tag = "4")]
    pub is_returning: bool,
    /// The browser or program of a device at its last sign-in.
    #[prost(string, optional, tag = "5")]
    pub user_agent: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct KnownOrigins {
    /// Networks and devices: those of the last sign-in, then those that came back, each the last used first.
    #[prost(message, repeated, tag = "1")]
    pub origins: Vec<KnownOrigin>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Session {
    /// The generation of the password that it began with.
    #[prost(int64, tag = "1")]
    pub generation: i64,
    #[prost(int64, tag = "2")]
    pub created_at: i64,
    /// The last stored time of use.
    #[prost(int64, tag = "3")]
    pub used_at: i64,
    /// The latest end.
    #[prost(int64, tag = "4")]
    pub expires_at: i64,
    /// The network address at its start.
    #[prost(string, optional, tag = "5")]
    pub address: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub user_agent: Option<String>,
    /// Time at which the person last proved the password or a second factor, if that was after the start.
    #[prost(int64, tag = "7")]
    pub confirmed_at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    pub id: String,
    pub version: i64,
    pub session: Session,
}

#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The generation of the password; 0 without one.
    pub generation: i64,
    /// The stored sessions, including ended ones.
    pub stored: Vec<StoredSession>,
    /// The known networks and devices, with their row's version.
    pub known: Option<(i64, KnownOrigins)>,
}

fn seconds(days: i64) -> Option<u32> {
    u32::try_from(days * DAY_MS / 1_000).ok()
}

fn read_as<T: Message + Default>(body: Bytes) -> StoreResult<T> {
    decode_message(body, "account")
}

fn versioned<T: Message + Default>(row: Row) -> StoreResult<(i64, T)> {
    Ok((row.version, read_as(row.body)?))
}

fn session_item(id: &str) -> String {
    format!("{SESSION}{id}")
}

fn put(item: &str, expect: Expect, version: i64, row: &impl Message) -> ConditionalWrite {
    ConditionalWrite { clustering: key![item], expect, version, body: Some(row.encode_to_vec().into()) }
}

fn remove(item: &str, expect: Expect) -> ConditionalWrite {
    ConditionalWrite { clustering: key![item], expect, version: 0, body: None }
}

fn of_user(user: &str, writes: Vec<ConditionalWrite>, days: Option<i64>) -> Transaction {
    Transaction { table: &ACCOUNT, partition: key![user], writes, ttl: days.and_then(seconds) }
}

/// Writes a user's rows and changes beside them. Returns whether the conditions held. After a write in doubt, this
/// reads the first row: if the write happened, the changes beside it are applied too.
async fn write(
    backend: &SharedBackend,
    user: &str,
    (writes, days): (Vec<ConditionalWrite>, Option<i64>),
    beside: Vec<Change>,
) -> StoreResult<bool> {
    let wanted = writes.first().map(|write| (write.clustering.clone(), write.body.clone()));
    let written = backend.transact_with(of_user(user, writes, days), beside.clone()).await;
    let (Err(StoreError::InDoubt(_)), Some((item, body))) = (&written, wanted) else { return written };
    let key = [key![user], item].concat();
    let found = backend.get(&ACCOUNT, &key, Consistency::Serial).await?;
    if found.map(|row| row.body) != body {
        return written;
    }
    backend.apply(beside).await?;
    Ok(true)
}

/// Reads a user's password with its generation.
pub async fn password(
    backend: &SharedBackend,
    user: &str,
    consistency: Consistency,
) -> StoreResult<Option<(i64, Password)>> {
    read_message(backend, &ACCOUNT, &key![user, PASSWORD], consistency, "account").await
}

/// Reads the rows for a sign-in: the password with its generation, the known networks and devices, and the factors.
pub async fn sign_in_rows(
    backend: &SharedBackend,
    user: &str,
) -> StoreResult<(Option<(i64, Password)>, KnownOrigins, Factors)> {
    let keys = [key![user, PASSWORD], key![user, KNOWN], key![user, FACTORS]];
    let mut rows = backend.get_many(&ACCOUNT, &keys).await?.into_iter();
    let (password, known, factors) = (rows.next().flatten(), rows.next().flatten(), rows.next().flatten());
    let known = known.map(|row| read_as(row.body)).transpose()?;
    let factors = factors.map(|row| read_as(row.body)).transpose()?;
    Ok((password.map(versioned).transpose()?, known.unwrap_or_default(), factors.unwrap_or_default()))
}

/// Replaces the known networks and devices if their row still has this version. Returns true if it was written.
pub async fn set_known(
    backend: &SharedBackend,
    user: &str,
    before: i64,
    known: &KnownOrigins,
    beside: Vec<Change>,
) -> StoreResult<bool> {
    let writes = vec![put(KNOWN, Expect::Version(before), before + 1, known)];
    write(backend, user, (writes, Some(KNOWN_DAYS)), beside).await
}

/// Replaces the password of a generation, or sets the first one. Returns whether that generation was still current.
/// This also deletes all links for a new password; `link` is the condition on their row. It deletes the known networks
/// and devices too: another person may have signed in there. The new generation is [`next_generation`]. The changes
/// beside it are applied with it.
pub async fn set_password(
    backend: &SharedBackend,
    user: &str,
    (before, link): (Option<i64>, Expect),
    password: &Password,
    beside: Vec<Change>,
) -> StoreResult<bool> {
    let expect = before.map_or(Expect::Absent, Expect::Version);
    let password = put(PASSWORD, expect, next_generation(before), password);
    let writes = vec![password, remove(RESET, link), remove(KNOWN, Expect::Any)];
    write(backend, user, (writes, None), beside).await
}

pub fn next_generation(before: Option<i64>) -> i64 {
    before.map_or(FIRST_GENERATION, |before| before + 1)
}

/// Deletes the first password of a user whose creation failed.
pub async fn forget_password(backend: &SharedBackend, user: &str) -> StoreResult<()> {
    let writes = vec![remove(PASSWORD, Expect::Version(FIRST_GENERATION))];
    backend.transact(of_user(user, writes, None)).await.map(drop)
}

/// Reads a user's links for a new password, with their row's version. Some may be over.
pub async fn resets(
    backend: &SharedBackend,
    user: &str,
    consistency: Consistency,
) -> StoreResult<Option<(i64, Resets)>> {
    read_message(backend, &ACCOUNT, &key![user, RESET], consistency, "account").await
}

/// Replaces the links for a new password if their row still has this version, or is new. Returns whether it was
/// written. No version occurs twice while times grow.
pub async fn set_resets(
    backend: &SharedBackend,
    user: &str,
    before: Option<i64>,
    resets: &Resets,
    beside: Vec<Change>,
) -> StoreResult<bool> {
    let expect = before.map_or(Expect::Absent, Expect::Version);
    let newest = resets.links.iter().map(|link| link.expires_at).max().unwrap_or_default();
    let writes = vec![put(RESET, expect, newest.max(next_generation(before)), resets)];
    write(backend, user, (writes, Some(RESET_DAYS)), beside).await
}

/// Reads a session, with the present generation of the user's password. It may be over.
pub async fn session(backend: &SharedBackend, user: &str, id: &str) -> StoreResult<Option<(i64, StoredSession)>> {
    let keys = [key![user, PASSWORD], key![user, session_item(id)]];
    let mut rows = backend.get_many(&ACCOUNT, &keys).await?.into_iter();
    let (Some(password), Some(row)) = (rows.next().flatten(), rows.next().flatten()) else { return Ok(None) };
    let stored = StoredSession { id: id.to_owned(), version: row.version, session: read_as(row.body)? };
    Ok(Some((password.version, stored)))
}

/// Reads all sessions of a user, with the known networks and devices.
pub async fn sessions(backend: &SharedBackend, user: &str, consistency: Consistency) -> StoreResult<Sessions> {
    let mut found = Sessions::default();
    let scan = Scan { consistency, ..Scan::all(&ACCOUNT, key![user], MAX_ROWS) };
    for row in backend.scan(&scan).await? {
        let item = row.clustering.first().map(|item| item.text()).unwrap_or_default();
        if item == PASSWORD {
            found.generation = row.version;
        } else if item == KNOWN {
            found.known = Some(versioned(row)?);
        } else if let Some(id) = item.strip_prefix(SESSION) {
            let id = id.to_owned();
            found.stored.push(StoredSession { id, version: row.version, session: read_as(row.body)? });
        }
    }
    Ok(found)
}

/// Starts a session in place of others, and replaces the known networks and devices if their row still has this
/// version, or is new. Returns whether the session's id was new and the row was written. No version occurs twice while
/// times grow, although each new password deletes the row.
pub async fn begin_session(
    backend: &SharedBackend,
    user: &str,
    (id, session): (&str, &Session),
    (before, known): (Option<i64>, &KnownOrigins),
    instead: &[String],
    beside: Vec<Change>,
) -> StoreResult<bool> {
    let expect = before.map_or(Expect::Absent, Expect::Version);
    let known = put(KNOWN, expect, session.created_at.max(next_generation(before)), known);
    let mut writes = vec![put(&session_item(id), Expect::Absent, 1, session), known];
    writes.extend(instead.iter().map(|id| remove(&session_item(id), Expect::Any)));
    write(backend, user, (writes, Some(KNOWN_DAYS)), beside).await
}

/// Updates a session if its row still has this version. Returns whether it had.
pub async fn note_session(
    backend: &SharedBackend,
    user: &str,
    (id, version): (&str, i64),
    session: &Session,
) -> StoreResult<bool> {
    let writes = vec![put(&session_item(id), Expect::Version(version), version + 1, session)];
    backend.transact(of_user(user, writes, Some(SESSION_DAYS))).await
}

/// Ends a session if its row still has this version. Returns whether it had.
pub async fn end_session(
    backend: &SharedBackend,
    user: &str,
    (id, version): (&str, i64),
    beside: Vec<Change>,
) -> StoreResult<bool> {
    let writes = vec![remove(&session_item(id), Expect::Version(version))];
    write(backend, user, (writes, None), beside).await
}

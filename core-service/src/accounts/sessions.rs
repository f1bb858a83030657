//! Sessions of people: start, check, list and end.

use thesis_proto::{error::ErrorCode, time::from_millis, v1};

use super::{Person, known};
use crate::{
    convert,
    domain::{
        account::{Act, Actor, User},
        id,
        window::{DAY_MS, HOUR_MS, MINUTE_MS},
    },
    error::{Error, Result},
    keys::key_ring::user_of_session,
    shared::Shared,
    store::{Change, Consistency, StoreError},
    tables::{
        account::{self as rows, Session, StoredSession},
        audit,
    },
};

/// Lifetime of a session, in milliseconds.
const MAX_MS: i64 = 30 * DAY_MS;
/// A session ends after this long without use, in milliseconds.
const IDLE_MS: i64 = 12 * HOUR_MS;
/// Interval at which the use of a session is recorded, in milliseconds.
const NOTE_MS: i64 = 5 * MINUTE_MS;
const MAX_SESSIONS: usize = 20;
/// Rounds against concurrent starts of sessions of the same user.
const MAX_ROUNDS: usize = 20;
/// Time after a proof of the password or a factor in which sensitive changes need no new proof, in milliseconds.
pub const CONFIRMED_MS: i64 = 15 * MINUTE_MS;
/// Stored characters of the name of a browser or program.
const USER_AGENT_LENGTH: usize = 200;

impl Session {
    /// True if it is valid at a time, given the generation of the password.
    fn is_open(&self, generation: i64, now_ms: i64) -> bool {
        self.generation == generation && now_ms < self.expires_at && now_ms - self.used_at < IDLE_MS
    }

    /// Time of the last proof of the password or a factor. The start of the session counts as one.
    fn confirmed_at(&self) -> i64 {
        self.confirmed_at.max(self.created_at)
    }
}

/// Builds an audit row for an action that the control log does not hold.
pub fn audit_row(shared: &Shared, act: &Act) -> Change {
    audit::change(shared.clock.now_ms(), &id::random("aud_", shared.ids.as_ref()), act)
}

pub fn actor(user: &User, address: Option<&str>) -> Actor {
    Actor { id: user.id.clone(), address: address.map(str::to_owned), is_member: true }
}

fn sign_in_required() -> Error {
    Error::new(ErrorCode::SignInRequired, "this needs a session that has not ended; sign in")
}

/// Finds the person whose session a token names.
pub async fn admit(shared: &Shared, token: Option<&str>, address: Option<String>) -> Result<Person> {
    if !shared.control.is_current() {
        return Err(Error::outdated());
    }
    let token = token.ok_or_else(sign_in_required)?;
    let user_id = user_of_session(token).ok_or_else(sign_in_required)?;
    let session_id = shared.keys.session_id(token);
    let found = rows::session(&shared.backend, user_id, &session_id).await?;
    let (generation, stored) = found.ok_or_else(sign_in_required)?;
    let now_ms = shared.clock.now_ms();
    if !stored.session.is_open(generation, now_ms) {
        return Err(sign_in_required());
    }
    let known = || shared.control.state().people().user(user_id).cloned();
    let mut user = known();
    if user.is_none() {
        // Another core may just have created the user.
        shared.control.try_refresh().await;
        user = known();
    }
    let user = user.ok_or_else(sign_in_required)?;
    let confirmed_at = stored.session.confirmed_at();
    note_use(shared, user_id, stored, now_ms).await;
    let actor = actor(&user, address.as_deref());
    Ok(Person { user, session_id, actor, now_ms, confirmed_at })
}

/// Refuses a sensitive change if the person's last proof of the password or a factor is too old.
pub fn demand_confirmation(person: &Person) -> Result<()> {
    if person.now_ms - person.confirmed_at < CONFIRMED_MS {
        return Ok(());
    }
    let text = "confirm that it is you: type your password or a code again";
    Err(Error::new(ErrorCode::ConfirmationRequired, text))
}

/// Records that a person has proven the password or a factor again.
pub async fn confirm(shared: &Shared, person: &Person) -> Result<()> {
    let user = &person.user.id;
    // Recording a use writes the row too, so this repeats until its conditional write succeeds.
    while let Some((generation, stored)) = rows::session(&shared.backend, user, &person.session_id).await? {
        if !stored.session.is_open(generation, person.now_ms) {
            break;
        }
        let session = Session { confirmed_at: person.now_ms, ..stored.session };
        if rows::note_session(&shared.backend, user, (&stored.id, stored.version), &session).await? {
            return Ok(());
        }
    }
    Err(sign_in_required())
}

pub async fn demand_open(shared: &Shared, user_id: &str, session_id: &str) -> Result<()> {
    let found = rows::session(&shared.backend, user_id, session_id).await?;
    let now_ms = shared.clock.now_ms();
    let is_open = found.is_some_and(|(generation, stored)| stored.session.is_open(generation, now_ms));
    if is_open { Ok(()) } else { Err(sign_in_required()) }
}

async fn note_use(shared: &Shared, user_id: &str, stored: StoredSession, now_ms: i64) {
    if now_ms - stored.session.used_at < NOTE_MS {
        return;
    }
    let session = Session { used_at: now_ms, ..stored.session };
    // If the row has changed, another call has recorded the use, or the session has ended.
    let noted = rows::note_session(&shared.backend, user_id, (&stored.id, stored.version), &session).await;
    if let Err(error) = noted {
        tracing::debug!(%error, "noting the use of a session failed");
    }
}

/// Starts a session of a user with the password of a generation. It ends those of earlier generations, and beyond
/// twenty the least recently used ones. The network, and the device if it has a token, count as known from now on.
pub async fn begin(
    shared: &Shared,
    user: &User,
    (address, device): (Option<&str>, Option<&str>),
    user_agent: Option<&str>,
    generation: i64,
) -> Result<v1::NewSession> {
    let now_ms = shared.clock.now_ms();
    let token = shared.keys.session_token(&user.id);
    let id = shared.keys.session_id(&token);
    let user_agent = user_agent
        .map(|text| text.chars().filter(|letter| !letter.is_control()).take(USER_AGENT_LENGTH).collect::<String>());
    let session = Session {
        generation,
        created_at: now_ms,
        used_at: now_ms,
        expires_at: now_ms + MAX_MS,
        address: address.map(str::to_owned),
        user_agent: user_agent.filter(|text| !text.trim().is_empty()),
        confirmed_at: now_ms,
    };
    let mut consistency = Consistency::Quorum;
    for _ in 0..MAX_ROUNDS {
        let found = rows::sessions(&shared.backend, &user.id, consistency).await?;
        if found.generation > generation {
            // A newer password ended this session before its start, and no device of the older one is known.
            return Err(sign_in_required());
        }
        let (before, origins) = found.known.map_or_else(Default::default, |(version, known)| (Some(version), known));
        let (mut origins, device) = known::remember(&shared.keys, &user.id, (address, device), origins, now_ms);
        // `remember` puts the device of this sign-in first.
        if let Some(one) = origins.origins.iter_mut().find(|one| one.is_device) {
            one.user_agent.clone_from(&session.user_agent);
        }
        let instead = replaced(found.stored, generation, now_ms);
        let beside = vec![audit_row(shared, &actor(user, address).does("session.begun").to(&id))];
        let new = (id.as_str(), &session);
        if rows::begin_session(&shared.backend, &user.id, new, (before, &origins), &instead, beside).await? {
            let (user, expires_at) = (Some(convert::account::user(user)), Some(from_millis(session.expires_at)));
            return Ok(v1::NewSession { token, user, expires_at, device });
        }
        consistency = Consistency::Serial;
    }
    Err(StoreError::Unavailable("too many sessions of one user begin at once".to_owned()).into())
}

/// Returns the ids of the sessions that a new one replaces.
fn replaced(mut others: Vec<StoredSession>, generation: i64, now_ms: i64) -> Vec<String> {
    // This call may not judge a session of a later generation.
    let is_open = |other: &StoredSession| other.session.is_open(other.session.generation.max(generation), now_ms);
    others.sort_by_key(|other| (!is_open(other), -other.session.used_at));
    let open = others.iter().filter(|other| is_open(other)).count();
    others.into_iter().skip(open.min(MAX_SESSIONS - 1)).map(|other| other.id).collect()
}

/// Lists the open sessions of a person, the last used first.
pub async fn list(shared: &Shared, person: &Person) -> Result<Vec<v1::Session>> {
    let found = rows::sessions(&shared.backend, &person.user.id, Consistency::Quorum).await?;
    let is_open = |stored: &StoredSession| stored.session.is_open(found.generation, person.now_ms);
    let mut open: Vec<_> = found.stored.into_iter().filter(is_open).collect();
    open.sort_by_key(|stored| (-stored.session.used_at, -stored.session.created_at, stored.id.clone()));
    Ok(open.iter().map(|stored| message(stored, person)).collect())
}

/// Reads the session of the caller; none if it has just ended.
pub async fn current(shared: &Shared, person: &Person) -> Result<Option<v1::Session>> {
    let found = rows::session(&shared.backend, &person.user.id, &person.session_id).await?;
    Ok(found.map(|(_, stored)| message(&stored, person)))
}

fn message(stored: &StoredSession, person: &Person) -> v1::Session {
    let row = &stored.session;
    v1::Session {
        id: stored.id.clone(),
        created_at: Some(from_millis(row.created_at)),
        used_at: Some(from_millis(row.used_at)),
        expires_at: Some(from_millis(row.expires_at)),
        address: row.address.clone(),
        user_agent: row.user_agent.clone(),
        current: stored.id == person.session_id,
    }
}

/// Ends a session of a person, with an action for the audit log. Returns true if there was one.
pub async fn end(shared: &Shared, person: &Person, id: &str, action: &str) -> Result<bool> {
    let user = &person.user.id;
    // A recorded use writes the row again, so this reads until the write holds.
    while let Some((generation, stored)) = rows::session(&shared.backend, user, id).await? {
        if !stored.session.is_open(generation, person.now_ms) {
            return Ok(false);
        }
        let beside = vec![audit_row(shared, &person.actor.does(action).to(id))];
        if rows::end_session(&shared.backend, user, (id, stored.version), beside).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;

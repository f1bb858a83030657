//! Tickets that open streams without a key: a client creates a ticket, uses it, and uses it again to reconnect.
//!
//! A ticket's row names its key and the connection that uses it. Opening again moves the row by a condition. The old
//! connection ends at once at the same core, and within a second at another one, by a row that cores read only while
//! they have streams of tickets.
//!
//! An open stream writes nothing. Its row notes the opening and the closing, and lasts for 30 days from an opening on.
//! When an edge or a core dies, nobody notes the closings. So once a minute a core notes the sessions of edges with
//! streams of tickets, in one write. A stream without a closing was open until the last note of its session.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use thesis_proto::{time::from_millis, v1};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    access::gate::Call,
    error::Result,
    metrics::TICKETS,
    service::Core,
    store::{Consistency, StoreResult},
    tables::stream_tickets::{self as tickets, Ticket},
};

/// Time limit from the creation of a ticket to its first use.
const FIRST_USE_MS: i64 = 60_000;
/// Time limit for a client to reconnect.
const AWAY_MS: i64 = 5 * 60_000;
/// Interval at which the sessions with open streams of tickets are recorded.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Interval at which this core checks for connections that were replaced at other cores.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Replacements of the last seconds are read again, since they may arrive late and clocks differ.
const MOVE_SECONDS: i64 = 5;
/// Attempts to write a ticket against concurrent writers.
const TRIES: u32 = 5;
/// Tickets that are written concurrently.
const MAX_CONCURRENT_WRITES: usize = 16;

/// A valid ticket.
pub struct FoundTicket {
    /// The hash under which it is stored.
    pub hash: String,
    version: i64,
    /// The ticket with the key whose rights it carries.
    pub ticket: Ticket,
}

/// Id of a connection: a stream of a session.
fn connection(session: &str, stream: u64) -> String {
    format!("{session}/{stream}")
}

/// Creates a ticket, named after the seed.
pub async fn create_ticket(core: &Core, call: &Call, seed: &str) -> Result<v1::StreamTicket> {
    let text = core.shared.keys.stream_ticket(seed);
    let ticket = Ticket { key_id: call.caller.key_id(), created_at: call.now_ms, ..Ticket::default() };
    let hash = core.shared.keys.ticket_hash(&text);
    // It exists already if an earlier attempt of this request created it.
    tickets::write(&core.shared.backend, &hash, None, &ticket).await?;
    TICKETS.at("created").increment(1);
    Ok(v1::StreamTicket { ticket: text, expires_at: Some(from_millis(call.now_ms + FIRST_USE_MS)) })
}

/// Finds a ticket; none if it was never issued or has expired.
pub async fn find_ticket(core: &Core, text: &str) -> Result<Option<FoundTicket>> {
    let hash = core.shared.keys.ticket_hash(text);
    let Some((version, ticket)) = tickets::read(&core.shared.backend, &hash, Consistency::Quorum).await? else {
        return Ok(None);
    };
    let found = FoundTicket { hash, version, ticket };
    Ok(is_valid(core, &found.ticket).await?.then_some(found))
}

/// True if a ticket may open a stream now.
async fn is_valid(core: &Core, ticket: &Ticket) -> Result<bool> {
    let now_ms = core.shared.clock.now_ms();
    if ticket.connection.is_empty() {
        return Ok(now_ms - ticket.created_at <= FIRST_USE_MS);
    }
    let is_recent = |open_at: i64| now_ms - open_at <= AWAY_MS;
    if is_recent(ticket.open_at) || ticket.is_closed {
        return Ok(is_recent(ticket.open_at));
    }
    // The connection is open, or its edge or core has died.
    let Some((session, _)) = ticket.connection.split_once('/') else { return Ok(false) };
    Ok(tickets::session_open_at(&core.shared.backend, session).await?.is_some_and(is_recent))
}

/// Uses a ticket for a stream, and ends the stream that used it before. Returns true if the ticket was still valid.
pub async fn use_ticket(core: &Core, mut found: FoundTicket, session: &str, stream: u64) -> Result<bool> {
    let backend = &core.shared.backend;
    for _ in 0..TRIES {
        let now_ms = core.shared.clock.now_ms();
        let before = &found.ticket.connection;
        if !before.is_empty() && !is_here(core, before) && !backend.is_exclusive() {
            // Before the ticket has its new connection: a notification that is lost would leave both open.
            tickets::publish_replaced(backend, now_ms, before).await?;
        }
        let connection = connection(session, stream);
        let used = Ticket { connection, open_at: now_ms, is_closed: false, ..found.ticket.clone() };
        if tickets::write(backend, &found.hash, Some(found.version), &used).await? {
            TICKETS.at("used").increment(1);
            replace_here(core, before);
            return Ok(true);
        }
        // Its closing was recorded concurrently, or another connection took it: the last one counts.
        let again = tickets::read(backend, &found.hash, Consistency::Serial).await?;
        let Some((version, ticket)) = again else { return Ok(false) };
        if !is_valid(core, &ticket).await? {
            return Ok(false);
        }
        found = FoundTicket { version, ticket, ..found };
    }
    Ok(false)
}

/// True if this core has the session of a connection.
fn is_here(core: &Core, connection: &str) -> bool {
    connection.split_once('/').is_some_and(|(session, _)| core.open_streams.knows(session))
}

/// Ends a replaced connection, if this core has its session.
fn replace_here(core: &Core, connection: &str) {
    if let Some((session, stream)) = connection.split_once('/')
        && let Ok(stream) = stream.parse()
    {
        core.open_streams.replace(session, stream);
    }
}

/// Records that connections of a session, which tickets opened, have closed.
pub async fn note_closed(core: &Core, session: &str, closed: Vec<(String, u64)>) {
    let noting = stream::iter(closed).for_each_concurrent(MAX_CONCURRENT_WRITES, |(hash, stream)| async move {
        if let Err(error) = note_one_closed(core, &hash, connection(session, stream)).await {
            tracing::debug!(%error, "noting that a ticket's stream has closed failed");
        }
    });
    noting.await;
}

async fn note_one_closed(core: &Core, hash: &str, connection: String) -> StoreResult<()> {
    let found = tickets::read(&core.shared.backend, hash, Consistency::Serial).await?;
    let Some((version, ticket)) = found.filter(|(_, ticket)| ticket.connection == connection) else { return Ok(()) };
    let closed = Ticket { open_at: core.shared.clock.now_ms(), is_closed: true, ..ticket };
    // A concurrent use has precedence.
    let _other = tickets::write(&core.shared.backend, hash, Some(version), &closed).await?;
    Ok(())
}

/// Records that the sessions with streams of tickets are open. One write serves all their streams.
async fn note_sessions(core: &Core) {
    let (sessions, now_ms) = (core.open_streams.ticket_sessions(), core.shared.clock.now_ms());
    if let Err(error) = tickets::write_open_sessions(&core.shared.backend, now_ms, &sessions).await {
        tracing::debug!(%error, "noting that sessions are open failed");
    }
}

/// Records that sessions are open, and ends connections that were replaced at other cores. Never returns.
pub async fn watch(core: Arc<Core>) {
    let every = |period| {
        let mut every = interval(period);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        every
    };
    let noting = async {
        let mut notes = every(NOTE_EVERY);
        loop {
            notes.tick().await;
            note_sessions(&core).await;
        }
    };
    // Separate, since one round of writes may take long.
    let looking = async {
        let mut looks = every(POLL_INTERVAL);
        let mut looked = now_in_seconds(&core);
        loop {
            looks.tick().await;
            let now = now_in_seconds(&core);
            if core.shared.backend.is_exclusive() || core.open_streams.ticket_sessions().is_empty() {
                looked = now;
                continue;
            }
            match tickets::replaced(&core.shared.backend, looked.min(now) - MOVE_SECONDS, now + 1).await {
                Ok(replaced) => {
                    looked = now;
                    for connection in replaced {
                        replace_here(&core, &connection);
                    }
                }
                Err(error) => tracing::debug!(%error, "looking for replaced connections failed"),
            }
        }
    };
    tokio::join!(noting, looking);
}

fn now_in_seconds(core: &Core) -> i64 {
    core.shared.clock.now_ms().div_euclid(1_000)
}

#[cfg(test)]
mod tests;

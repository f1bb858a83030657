//! Tickets that open streams without a key: a client creates a ticket, uses it, and uses it again to reconnect.
//!
//! A ticket's row names its key and the connection that uses it. Opening again moves the row by a condition. The old
//! connection ends at once at the same core, and within a second at another one, by a row that cores read only while
//! they have streams of tickets. This row comes before the move, since nothing finds a lost one later. So the core of
//! the old connection reads the ticket, and ends the connection only if the ticket names another one.
//!
//! An open stream writes nothing. Its ticket notes the opening and the closing. A core notes each closing, whatever
//! its reason, until the store has it. A core that stops notes as many as it can, and one that dies none. So once a
//! minute a core notes the sessions of edges with streams of tickets, in one write. A stream without a closing was open
//! for at most a minute after the last note of its session.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use thesis_proto::{time::from_millis, v1};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{gate::Call, open_streams::TicketClosing},
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
/// Interval at which the sessions with open streams of tickets are recorded, in milliseconds.
const NOTE_INTERVAL_MS: i64 = 60_000;
/// Interval at which this core checks for connections that were replaced at other cores.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Replacements of the last seconds are read again, since they may arrive late, clocks differ, and a ticket moves after
/// the notification.
const MOVE_SECONDS: i64 = 5;
/// Every [`POLLS_PER_LATE_READ`] polls, the replacements of this many seconds are read again.
const LATE_MOVE_SECONDS: i64 = 30;
/// Number of polls from one read of late replacements to the next.
const POLLS_PER_LATE_READ: u64 = 10;
/// Time for which a ticket may move, in milliseconds. Then the notification is repeated, since the other core may have
/// read the ticket too early.
const SLOW_MOVE_MS: i64 = 2_000;
/// Maximum number of closings that are noted together.
const MAX_CLOSINGS: usize = 1_000;
/// Interval between two tries to note closings.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Attempts to write a ticket against concurrent writers.
const TRIES: u32 = 5;
/// Maximum number of tickets that are read or written at the same time.
const MAX_CONCURRENT: usize = 16;

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
    // The connection of a core that has died was open for at most a minute after it was last noted.
    let limit = if ticket.is_closed { AWAY_MS } else { AWAY_MS + NOTE_INTERVAL_MS };
    let is_recent = |open_at: i64| now_ms - open_at <= limit;
    if is_recent(ticket.open_at) || ticket.is_closed {
        return Ok(is_recent(ticket.open_at));
    }
    let Some((session, _)) = ticket.connection.split_once('/') else { return Ok(false) };
    Ok(tickets::session_open_at(&core.shared.backend, session).await?.is_some_and(is_recent))
}

/// Uses a ticket for a stream, and ends the stream that used it before. Returns true if the ticket was still valid.
pub async fn use_ticket(core: &Core, mut found: FoundTicket, session: &str, stream: u64) -> Result<bool> {
    let backend = &core.shared.backend;
    for _ in 0..TRIES {
        let now_ms = core.shared.clock.now_ms();
        let before = &found.ticket.connection;
        let is_elsewhere = !before.is_empty() && !found.ticket.is_closed && !is_here(core, before);
        let must_notify = is_elsewhere && !backend.is_exclusive();
        if must_notify {
            tickets::publish_replaced(backend, now_ms, before).await?;
        }
        let connection = connection(session, stream);
        let used = Ticket { connection, open_at: now_ms, is_closed: false, ..found.ticket.clone() };
        if tickets::write(backend, &found.hash, Some(found.version), &used).await? {
            TICKETS.at("used").increment(1);
            replace_here(core, before);
            let moved_at = core.shared.clock.now_ms();
            if must_notify
                && moved_at - now_ms > SLOW_MOVE_MS
                && let Err(error) = tickets::publish_replaced(backend, moved_at, before).await
            {
                tracing::debug!(%error, "notifying once more of a replaced connection failed");
            }
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

/// The session and the stream of a connection.
fn parse_connection(connection: &str) -> Option<(&str, u64)> {
    let (session, stream) = connection.split_once('/')?;
    Some((session, stream.parse().ok()?))
}

/// True if this core has the session of a connection.
fn is_here(core: &Core, connection: &str) -> bool {
    parse_connection(connection).is_some_and(|(session, _)| core.open_streams.knows(session))
}

/// Ends a replaced connection, if this core has its session.
fn replace_here(core: &Core, connection: &str) {
    if let Some((session, stream)) = parse_connection(connection) {
        core.open_streams.replace(session, stream);
    }
}

/// Ends those of some connections that are open here and whose ticket names another connection.
async fn end_replaced(core: &Core, connections: Vec<String>) {
    let open_here = connections.into_iter().filter_map(|connection| {
        let (session, stream) = parse_connection(&connection)?;
        Some((core.open_streams.ticket_of(session, stream)?, connection))
    });
    let ending = stream::iter(open_here).for_each_concurrent(MAX_CONCURRENT, |(hash, connection)| async move {
        match tickets::read(&core.shared.backend, &hash, Consistency::Quorum).await {
            Ok(found) => {
                if found.is_some_and(|(_, ticket)| ticket.connection != connection) {
                    replace_here(core, &connection);
                }
            }
            Err(error) => tracing::debug!(%error, "reading the ticket of a replaced connection failed"),
        }
    });
    ending.await;
}

/// Records the closings of streams that tickets opened, until all streams of this core have `ended`.
pub async fn note_closings(core: &Core, ended: &CancellationToken) {
    let streams = &core.open_streams;
    loop {
        let is_last = ended.is_cancelled();
        let closings = streams.take_closings(MAX_CLOSINGS);
        if is_last && closings.is_empty() {
            return;
        }
        let failed = try_note_closings(core, closings).await;
        if is_last {
            // The notes of sessions bound the validity of the tickets whose closings failed.
            continue;
        }
        let must_retry = !failed.is_empty();
        streams.put_closings_back(failed);
        tokio::select! {
            () = ended.cancelled() => {}
            () = sleep(RETRY_INTERVAL), if must_retry => {}
            () = streams.await_closings(), if !must_retry => {}
        }
    }
}

/// Returns the closings that could not be recorded.
async fn try_note_closings(core: &Core, closings: Vec<TicketClosing>) -> Vec<TicketClosing> {
    let noting = stream::iter(closings).map(|closing| async move {
        let noted = note_closing(core, &closing).await;
        noted.err().map(|error| {
            tracing::debug!(%error, "noting that a ticket's stream has closed failed, trying again");
            closing
        })
    });
    noting.buffer_unordered(MAX_CONCURRENT).filter_map(std::future::ready).collect().await
}

async fn note_closing(core: &Core, closing: &TicketClosing) -> StoreResult<()> {
    let TicketClosing { ticket: hash, session, stream, closed_at } = closing;
    let connection = connection(session, *stream);
    let found = tickets::read(&core.shared.backend, hash, Consistency::Serial).await?;
    let is_open = |ticket: &Ticket| ticket.connection == connection && !ticket.is_closed;
    let Some((version, ticket)) = found.filter(|(_, ticket)| is_open(ticket)) else { return Ok(()) };
    let closed = Ticket { open_at: *closed_at, is_closed: true, ..ticket };
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
        let mut notes = every(Duration::from_millis(NOTE_INTERVAL_MS.unsigned_abs()));
        loop {
            notes.tick().await;
            note_sessions(&core).await;
        }
    };
    // Separate, since one round of writes may take long.
    let looking = async {
        let mut looks = every(POLL_INTERVAL);
        let (mut looked, mut polls) = (now_in_seconds(&core), 0_u64);
        loop {
            looks.tick().await;
            let now = now_in_seconds(&core);
            if core.shared.backend.is_exclusive() || core.open_streams.ticket_sessions().is_empty() {
                looked = now;
                continue;
            }
            polls += 1;
            let back = if polls.is_multiple_of(POLLS_PER_LATE_READ) { LATE_MOVE_SECONDS } else { MOVE_SECONDS };
            match tickets::replaced(&core.shared.backend, looked.min(now) - back, now + 1).await {
                Ok(replaced) => {
                    looked = now;
                    end_replaced(&core, replaced).await;
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

//! Tickets that open streams without a key: a client creates a ticket, uses it, and uses it again to reconnect.
//!
//! A ticket's row names its key and the connection that uses it. Opening again moves the row by a condition. The old
//! connection ends at once at the same core, and within a second at another one, by a row that cores read only while
//! they have streams of tickets.

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
/// Interval at which an open connection of a ticket is recorded.
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
    let found = tickets::read(&core.shared.backend, &hash, Consistency::Quorum).await?;
    Ok(found.and_then(|(version, ticket)| in_time(core, FoundTicket { hash, version, ticket })))
}

/// Returns the ticket, if it is valid now.
fn in_time(core: &Core, found: FoundTicket) -> Option<FoundTicket> {
    let ticket = &found.ticket;
    let now_ms = core.shared.clock.now_ms();
    let is_late = if ticket.connection.is_empty() {
        now_ms - ticket.created_at > FIRST_USE_MS
    } else {
        now_ms - ticket.open_at > AWAY_MS
    };
    (!is_late).then_some(found)
}

/// Uses a ticket for a stream, and ends the stream that used it before. Returns true if the ticket was still valid.
pub async fn use_ticket(core: &Core, mut found: FoundTicket, session: &str, stream: u64) -> Result<bool> {
    let now_ms = core.shared.clock.now_ms();
    let mut tries = 0;
    loop {
        let used = Ticket { connection: connection(session, stream), open_at: now_ms, ..found.ticket.clone() };
        if tickets::write(&core.shared.backend, &found.hash, Some(found.version), &used).await? {
            TICKETS.at("used").increment(1);
            break;
        }
        // Its use was recorded concurrently, or another connection took it: the last one counts.
        let again = tickets::read(&core.shared.backend, &found.hash, Consistency::Serial).await?;
        let again = again.map(|(version, ticket)| FoundTicket { hash: found.hash, version, ticket });
        match again.and_then(|again| in_time(core, again)) {
            Some(again) if tries < TRIES => found = again,
            _ => return Ok(false),
        }
        tries += 1;
    }
    let before = &found.ticket.connection;
    if !before.is_empty() && !replace_here(core, before) && !core.shared.backend.is_exclusive() {
        tickets::publish_replaced(&core.shared.backend, now_ms, before).await?;
    }
    Ok(true)
}

/// Ends a replaced connection, if this core has its session.
fn replace_here(core: &Core, connection: &str) -> bool {
    let Some((session, stream)) = connection.split_once('/') else { return false };
    if let Ok(stream) = stream.parse() {
        core.open_streams.replace(session, stream);
    }
    core.open_streams.knows(session)
}

/// Records when the connections of a session's tickets were last open.
pub async fn note_open_streams(core: &Core, session: &str, open: Vec<(String, u64)>) {
    note_all(core, open.into_iter().map(|(hash, stream)| (hash, session.to_owned(), stream))).await;
}

async fn note_all(core: &Core, open: impl IntoIterator<Item = (String, String, u64)>) {
    let noting = stream::iter(open).for_each_concurrent(MAX_CONCURRENT_WRITES, |(hash, session, stream)| async move {
        if let Err(error) = note_one(core, &hash, &connection(&session, stream)).await {
            tracing::debug!(%error, "noting a ticket's use failed");
        }
    });
    noting.await;
}

async fn note_one(core: &Core, hash: &str, connection: &str) -> StoreResult<()> {
    let Some((version, ticket)) = tickets::read(&core.shared.backend, hash, Consistency::Serial).await? else {
        return Ok(());
    };
    if ticket.connection != connection {
        // The notification of the replacement may have been lost.
        replace_here(core, connection);
    } else {
        let open_at = core.shared.clock.now_ms();
        // A concurrent use has precedence.
        let _other = tickets::write(&core.shared.backend, hash, Some(version), &Ticket { open_at, ..ticket }).await?;
    }
    Ok(())
}

/// Records the use of tickets, and ends connections that were replaced at other cores. Never returns.
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
            note_all(&core, core.open_streams.tickets()).await;
        }
    };
    // Separate, since one round of writes may take long.
    let looking = async {
        let mut looks = every(POLL_INTERVAL);
        let mut looked = now_in_seconds(&core);
        loop {
            looks.tick().await;
            let now = now_in_seconds(&core);
            if core.shared.backend.is_exclusive() || !core.open_streams.have_tickets() {
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

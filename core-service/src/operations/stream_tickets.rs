//! Tickets that open streams in place of a key: made, used, and used again when a client comes back.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use thesis_proto::{time::from_millis, v1};
use tokio::time::{MissedTickBehavior, interval};

use super::Core;
use crate::{
    access::gate::Call,
    error::Result,
    store::StoreResult,
    tables::stream_tickets::{self as tickets, Ticket},
};

/// Longest time from a ticket's creation to its first use.
const FIRST_USE_MS: i64 = 60_000;
/// Longest time that its client may be away.
const AWAY_MS: i64 = 5 * 60_000;
/// How often it is noted that a ticket's connection is open.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// How often it is looked for connections that were replaced at other cores.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Seconds for which a move is read again: it is on its way, and clocks differ.
const MOVE_SECONDS: i64 = 5;
/// Most tickets that are noted at once.
const PARALLEL: usize = 16;

/// A ticket that may be used now.
pub struct FoundTicket {
    hash: String,
    version: i64,
    ticket: Ticket,
}

impl FoundTicket {
    /// The key whose rights it carries.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.ticket.key_id
    }

    /// The hash under which it is stored.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// Names a connection: a stream of a session.
fn connection(session: &str, stream: u64) -> String {
    format!("{session}/{stream}")
}

/// Makes a ticket that is named after the seed.
///
/// # Errors
/// When the store does not answer.
pub async fn create_stream_ticket(core: &Core, call: &Call, seed: &str) -> Result<v1::StreamTicket> {
    let text = core.shared.keys.stream_ticket(seed);
    let ticket = Ticket { key_id: call.caller.key.id.clone(), created_at: call.now_ms, ..Ticket::default() };
    let hash = core.shared.keys.ticket_hash(&text);
    // It exists already if an earlier try of this request made it.
    tickets::write(&core.shared.backend, &hash, None, &ticket).await?;
    Ok(v1::StreamTicket { ticket: text, expires_at: Some(from_millis(call.now_ms + FIRST_USE_MS)) })
}

/// Finds a ticket; none if it was never issued, or its time is over.
///
/// # Errors
/// When the store does not answer.
pub async fn find_ticket(core: &Core, text: &str) -> Result<Option<FoundTicket>> {
    let hash = core.shared.keys.ticket_hash(text);
    let Some((version, ticket)) = tickets::read(&core.shared.backend, &hash).await? else { return Ok(None) };
    let now_ms = core.shared.clock.now_ms();
    let is_late = if ticket.connection.is_empty() {
        now_ms - ticket.created_at > FIRST_USE_MS
    } else {
        now_ms - ticket.open_at > AWAY_MS
    };
    Ok((!is_late).then_some(FoundTicket { hash, version, ticket }))
}

/// Uses a ticket for a stream, and ends the stream that used it before; tells whether it could still be used.
///
/// # Errors
/// When the store does not answer.
pub async fn use_ticket(core: &Core, found: &FoundTicket, session: &str, stream: u64) -> Result<bool> {
    let before = &found.ticket.connection;
    let now_ms = core.shared.clock.now_ms();
    let used = Ticket { connection: connection(session, stream), open_at: now_ms, ..found.ticket.clone() };
    if !tickets::write(&core.shared.backend, &found.hash, Some(found.version), &used).await? {
        return Ok(false);
    }
    if !before.is_empty() && !replace_here(core, before) && !core.shared.backend.is_exclusive() {
        tickets::tell_replaced(&core.shared.backend, now_ms.div_euclid(1_000), before).await?;
    }
    Ok(true)
}

/// Ends a replaced connection, if its session is at this core.
fn replace_here(core: &Core, connection: &str) -> bool {
    let Some((session, stream)) = connection.split_once('/') else { return false };
    if let Ok(stream) = stream.parse() {
        core.open_streams.replace(session, stream);
    }
    core.open_streams.knows(session)
}

/// Notes when the connections of tickets were last open, if they still use them.
pub async fn note(core: &Core, session: &str, open: Vec<(String, u64)>) {
    let noting = stream::iter(open).for_each_concurrent(PARALLEL, |(hash, stream)| async move {
        if let Err(error) = note_one(core, &hash, &connection(session, stream)).await {
            tracing::debug!(%error, "noting a ticket's use failed");
        }
    });
    noting.await;
}

async fn note_one(core: &Core, hash: &str, connection: &str) -> StoreResult<()> {
    let Some((version, ticket)) = tickets::read(&core.shared.backend, hash).await? else { return Ok(()) };
    if ticket.connection == connection {
        let open_at = core.shared.clock.now_ms();
        // Another use of it meanwhile counts more.
        let _other = tickets::write(&core.shared.backend, hash, Some(version), &Ticket { open_at, ..ticket }).await?;
    }
    Ok(())
}

/// Notes the use of tickets, and ends connections that were replaced at other cores; never ends.
pub async fn watch(core: Arc<Core>) {
    let every = |period| {
        let mut every = interval(period);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        every
    };
    let (mut notes, mut looks) = (every(NOTE_EVERY), every(LOOK_EVERY));
    loop {
        tokio::select! {
            _ = notes.tick() => {
                for (ticket, session, stream) in core.open_streams.tickets() {
                    note(&core, &session, vec![(ticket, stream)]).await;
                }
            }
            _ = looks.tick() => {
                if core.shared.backend.is_exclusive() || core.open_streams.tickets().is_empty() {
                    continue;
                }
                let now = core.shared.clock.now_ms().div_euclid(1_000);
                match tickets::replaced(&core.shared.backend, now - MOVE_SECONDS, now + 1).await {
                    Ok(replaced) => for connection in replaced {
                        replace_here(&core, &connection);
                    },
                    Err(error) => tracing::debug!(%error, "looking for replaced connections failed"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! A server's metrics: its connections, and the requests that it refuses under overload.

use std::sync::{Arc, Weak};

use metrics::{Counter, Gauge, counter, gauge};

use super::connections::Connections;
use crate::metric::{self, describe, value};

const OPEN: &str = "connections_open";
const LIMIT: &str = "connections_limit";
const UNTAKEN: &str = "answers_untaken_bytes";
const CLOSED: &str = "connections_closed_total";
const REFUSED: &str = "overload_refused_total";

/// Reasons of every server to refuse a request: tasks wait too long for their turn, or unread responses leave no room.
/// A server may have further reasons.
const REASONS: [&str; 2] = ["lag", "answers"];

/// Counts a request that a server refuses under overload.
pub fn count_refused(server: &'static str, reason: &'static str) {
    counter!(REFUSED, "server" => server, "reason" => reason).increment(1);
}

/// Starts the counters of refused requests for these reasons.
pub fn begin_refused(server: &'static str, reasons: &[&'static str]) {
    describe::<Counter>(REFUSED, "Requests refused because there was too much to do, by server and reason");
    for reason in reasons {
        counter!(REFUSED, "server" => server, "reason" => *reason).absolute(0);
    }
}

/// Starts the metrics of a server.
pub(super) fn begin(server: &'static str, limit: usize, connections: &Arc<Connections>) {
    describe::<Gauge>(OPEN, "Connections that are open, by server");
    describe::<Gauge>(LIMIT, "Most connections that may be open at once, by server");
    describe::<Gauge>(UNTAKEN, "Bytes of answers that clients have not taken yet, by server");
    describe::<Counter>(
        CLOSED,
        "Connections that the server closed, by server and reason: turned_away when all others were busy, idle to make \
         room for a new one, slow because their untaken answers left no room",
    );
    begin_refused(server, &REASONS);
    for reason in ["turned_away", "idle", "slow"] {
        counter!(CLOSED, "server" => server, "reason" => reason).absolute(0);
    }
    gauge!(LIMIT, "server" => server).set(value(limit as u64));
    let (open, untaken) = (gauge!(OPEN, "server" => server), gauge!(UNTAKEN, "server" => server));
    let connections: Weak<Connections> = Arc::downgrade(connections);
    metric::add_sampler(move || {
        if let Some(connections) = connections.upgrade() {
            let (count, bytes) = connections.open_and_untaken();
            open.set(value(count as u64));
            untaken.set(value(bytes as u64));
        }
    });
}

/// Counts connections that the server closes.
pub(super) fn count_closed(server: &'static str, reason: &'static str, connections: usize) {
    counter!(CLOSED, "server" => server, "reason" => reason).increment(connections as u64);
}

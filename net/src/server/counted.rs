//! A server's metrics: its connections, and the requests that it refuses under overload.

use crate::metric::{self, ANY, value};

crate::declare_metrics! {
    fn declare;

    OPEN: Gauge = "connections_open", &[("server", ANY)], "Connections that are open, by server";
    LIMIT: Gauge = "connections_limit", &[("server", ANY)], "Most connections that may be open at once, by server";
    UNTAKEN: Gauge = "answers_untaken_bytes", &[("server", ANY)],
        "Bytes of answers that clients have not taken yet, by server";
    CLOSED: Counter = "connections_closed_total", &[("server", ANY), ("reason", ANY)],
        "Connections that the server closed, by server and reason: turned_away when all others were busy, idle to make \
         room for a new one, slow because their untaken answers left no room";
    REFUSED: Counter = "overload_refused_total", &[("server", ANY), ("reason", ANY)],
        "Requests refused because there was too much to do, by server and reason";
}

/// Reasons of every server to refuse a request: tasks wait too long for their turn, or unread responses leave no room.
/// A server may have further reasons.
const REASONS: [&str; 2] = ["lag", "answers"];

/// Counts a request that a server refuses under overload.
pub fn count_refused(server: &'static str, reason: &'static str) {
    REFUSED.begin(&[server, reason]).increment(1);
}

/// Starts the counters of refused requests for these reasons.
pub fn begin_refused(server: &'static str, reasons: &[&'static str]) {
    for reason in reasons {
        REFUSED.begin(&[server, reason]).absolute(0);
    }
}

/// Starts the metrics of a server. `open_and_untaken` counts its open connections and the unread bytes of its
/// responses, until the server has ended.
pub(super) fn begin(
    server: &'static str,
    limit: usize,
    open_and_untaken: impl Fn() -> Option<(usize, usize)> + Send + 'static,
) {
    declare();
    begin_refused(server, &REASONS);
    for reason in ["turned_away", "idle", "slow"] {
        CLOSED.begin(&[server, reason]).absolute(0);
    }
    LIMIT.begin(&[server]).set(value(limit as u64));
    let (open, untaken) = (OPEN.begin(&[server]), UNTAKEN.begin(&[server]));
    metric::add_sampler(move || {
        if let Some((count, bytes)) = open_and_untaken() {
            open.set(value(count as u64));
            untaken.set(value(bytes as u64));
        }
    });
}

/// Counts connections that the server closes.
pub(super) fn count_closed(server: &'static str, reason: &'static str, connections: usize) {
    CLOSED.begin(&[server, reason]).increment(connections as u64);
}

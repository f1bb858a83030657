//! The metrics of streams.

use metrics::{Counter, Gauge};
use thesis_net::metric::{self, Metric};

/// The protocols by which streams reach their clients.
const TRANSPORTS: &[&str] = &["sse", "websocket", "grpc"];

pub(crate) static OPEN: Metric<Gauge> =
    Metric::new("streams_open", &[("transport", TRANSPORTS)], "Streams that are open here, by transport");
pub(crate) static OPENED: Metric<Counter> =
    Metric::new("streams_opened_total", &[("transport", TRANSPORTS)], "Streams that were opened, by transport");
pub(crate) static ENDED: Metric<Counter> = Metric::new(
    "streams_ended_total",
    &[
        ("transport", TRANSPORTS),
        ("reason", &["client", "revoked", "reconnect", "replaced", "too_slow", "no_pong", "protocol"]),
    ],
    "Streams that ended, by transport and reason: the client left, its key lost its rights, it was told to come back \
     (this process or its core stops), its ticket opened another, it took nothing while far behind, it was not heard, \
     or it broke the protocol",
);
pub(crate) static EVENTS: Metric<Counter> =
    Metric::new("stream_events_total", &[("transport", TRANSPORTS)], "Events written to streams, by transport");
pub(crate) static GAPS: Metric<Counter> = Metric::new(
    "stream_gaps_total",
    &[("transport", TRANSPORTS)],
    "Subscriptions that were told of missed events that are not replayed, by transport",
);
pub(crate) static LAGGING: Metric<Gauge> = Metric::new(
    "streams_lagging",
    &[],
    "Places of subscriptions in a log that are behind the newest events in memory, and read pages from core",
);

/// Declares the metrics of streams. The recorder must be installed.
pub fn declare() {
    metric::declare(&[&OPEN, &OPENED, &ENDED, &EVENTS, &GAPS, &LAGGING]);
}

//! The metrics of streams.

/// The protocols by which streams reach their clients.
const TRANSPORTS: &[&str] = &["sse", "websocket", "grpc"];

thesis_net::declare_metrics! {
    pub fn declare;

    OPEN: Gauge = "streams_open", &[("transport", TRANSPORTS)], "Streams that are open here, by transport";
    OPENED: Counter = "streams_opened_total", &[("transport", TRANSPORTS)], "Streams that were opened, by transport";
    ENDED: Counter = "streams_ended_total",
        &[
            ("transport", TRANSPORTS),
            ("reason", &["client", "revoked", "reconnect", "replaced", "too_slow", "no_pong", "protocol", "complete"]),
        ],
        "Streams that ended, by transport and reason: the client left, its key lost its rights, this process or its \
         core stops, its ticket opened another, it took nothing while far behind, it answered no ping, it broke \
         the protocol, or its replay is complete";
    EVENTS: Counter = "stream_events_total", &[("transport", TRANSPORTS)], "Events written to streams, by transport";
    GAPS: Counter = "stream_gaps_total", &[("transport", TRANSPORTS)],
        "Subscriptions that were told of missed events that are not replayed, by transport";
    REPLAYING: Gauge = "streams_replaying", &[], "Subscriptions that replay past events";
    LAGGING: Gauge = "streams_lagging", &[],
        "Places of subscriptions in a log, but for replays, that are behind the newest events in memory, and read \
         pages from core";
}

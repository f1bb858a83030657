//! Every table, designed for its queries. The dataset is the first column of each key of customer data.
//!
//! # Recipe: a table
//!
//! The example is `abuse`.
//!
//! 1. Here: a line with its key and its kind of write. A table is conditional if a write depends on the row before it.
//! 2. `migrations/`: a new file with its `CREATE TABLE`, named in `scylla/migrate.rs`. It says whether older versions
//!    go on beside it (CONTRIBUTING.md). A keyspace refuses a released file that changed. A unit test compares file and
//!    line. If rows expire, whole files may too: `TimeWindowCompactionStrategy`, with the `timestamp_resolution` of its
//!    versions; conditional writes have microseconds, the default.
//! 3. `domain/abuse.rs`: the body, a protobuf type. `tables/abuse.rs`: queries named in the words of their subject.
//!
//! Rows that follow from a log are written in `log/projection.rs`, those of theses by `tables/theses/changes.rs`, which
//! caches follow too. `PROJECTED` in `tests/faults/recount.rs` names the table, so that a replay is compared with it.

use super::{Column, ColumnKind, Table, Writes};

const fn text(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text }
}

const fn int(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Int }
}

macro_rules! tables {
    ($($(#[$doc:meta])* $constant:ident $name:literal ($($partition:expr),+ $(; $($clustering:expr),+)?) $order:ident $writes:ident;)+) => {
        $($(#[$doc])* pub static $constant: Table = Table {
            name: $name,
            partition: &[$($partition),+],
            clustering: &[$($($clustering),+)?],
            descending: tables!(@$order),
            writes: Writes::$writes,
        };)+

        /// Every table.
        pub static ALL: &[&Table] = &[$(&$constant),+];
    };
    (@asc) => { false };
    (@desc) => { true };
}

tables! {
    /// The logs. A bucket holds 10,000 sequence numbers; its row -1 holds the head as version.
    EVENT_LOG "event_log" (text("dataset"), int("bucket"); int("seq")) asc Conditional;
    /// Checkpoints of the projections of a log: version = sequence number; body = empty, or the newest erasure.
    LOG_CHECKPOINT "log_checkpoint" (text("dataset"); text("projection")) asc Versioned;
    /// Logs to which cores append; version = the time of the last note.
    UNFINISHED "unfinished" (int("shard"); text("dataset"), text("replica")) asc Versioned;
    /// Position of an event in its log, if its id does not say it: version = sequence number.
    EVENT "event" (text("dataset"), text("id")) asc Versioned;
    /// The entries of a scope in a segment of 64 sequence numbers: body = their offsets, a byte each.
    EVENT_INDEX "event_index" (text("dataset"), text("scope"), int("bucket"); int("segment")) desc Versioned;
    /// Tokens that have or had a symbol, by its upper-case form.
    EVENT_SYMBOL "event_symbol" (text("dataset"), text("symbol"); text("token")) asc Versioned;
    /// Profiles.
    PROFILE "profile" (text("dataset"), text("id")) asc Versioned;
    /// Profile ids by upstream user id.
    UPSTREAM_REF "upstream_ref" (text("dataset"), text("upstream_id")) asc Versioned;
    /// The profiles with a handle, by its folded form. Their bodies decide which of them holds it.
    HANDLE_CLAIMS "handle_claims" (text("dataset"), text("handle"); text("profile")) asc Versioned;
    /// Tokens.
    TOKEN "token" (text("dataset"), text("id")) asc Versioned;
    /// Token ids by address.
    TOKEN_ADDRESS "token_address" (text("dataset"), text("address"); text("chain")) asc Versioned;
    /// Token ids by upper-case symbol.
    TOKEN_SYMBOL "token_symbol" (text("dataset"), text("symbol"); text("chain"), text("address")) asc Versioned;
    /// Theses. A row without a body is a reference: the thesis is in the log entry whose number is the version.
    THESIS "thesis" (text("dataset"), text("id")) asc Versioned;
    /// Theses by scope and time.
    THESIS_INDEX "thesis_index" (text("dataset"), text("scope"), int("bucket"); int("created_at"), text("id")) desc Versioned;
    /// The buckets that hold theses or events of a scope.
    INDEX_BUCKET "index_bucket" (text("dataset"), text("scope"); int("bucket")) desc Versioned;
    /// Authors: body = the number of theses that the dataset ever had by them, up to the first one that makes them
    /// prolific.
    AUTHOR "author" (text("dataset"), text("profile")) asc Versioned;
    /// Totals of a token, in the row without a profile, and the number of theses of each author on it.
    TOKEN_TOTALS "token_totals" (text("dataset"), text("token"); text("profile")) asc Versioned;
    /// Current state of all rows that the control log changed.
    CONTROL "control" (text("kind"), int("shard"); text("id")) asc Versioned;
    /// Requests in a month, by replica: version = the time of the write, body = the count.
    USAGE "usage" (text("organization"), text("month"); text("replica")) asc Versioned;
    /// Requests of a class, or failed authentications, in a minute; version and body as in a month.
    MINUTE_COUNT "minute_count" (text("subject"), int("minute"); text("replica")) asc Versioned;
    /// Heartbeats of the replicas: version = their number, body = the state of the core. In the service `stream`: the
    /// sessions with streams that tickets opened; version = the time.
    REPLICA_BEAT "replica_beat" (text("service"); text("replica")) asc Versioned;
    /// The places for streams of a project that each replica has leased.
    STREAM_SLOTS "stream_slots" (text("project")) asc Conditional;
    /// Tickets that open streams, by their hash.
    STREAM_TICKET "stream_ticket" (text("hash")) asc Conditional;
    /// Connections that another one of their ticket replaced, in partitions of eight seconds; version = the time.
    TICKET_MOVE "ticket_move" (int("second"); text("connection")) asc Versioned;
    /// Answers kept for idempotency keys.
    IDEMPOTENCY "idempotency" (text("scope"), text("key")) asc Conditional;
    /// Webhook deliveries with their attempts, and the attempts that are due: five minutes of a webhook in a partition.
    /// `kind` 0: an attempt due `at` a time. `kind` 1: a delivery created `at` a time. Both expire.
    DELIVERY "delivery" (text("webhook"), int("bucket"); int("kind"), int("at"), text("id")) asc Versioned;
    /// The partitions of a webhook's deliveries, by month; body empty.
    DELIVERY_BUCKET "delivery_bucket" (text("webhook"), int("month"); int("bucket")) desc Versioned;
    /// Webhooks with attempts due `since` a time, by the minute in which a core that takes the shard over reads them.
    QUEUE_MARK "queue_mark" (int("shard"), int("hour"); int("minute"), text("webhook"), int("since")) asc Versioned;
    /// The last minute of a shard whose marks need no reading: version = minute.
    QUEUE_DONE "queue_done" (int("shard")) asc Versioned;
    /// Failures of a webhook since its last success.
    WEBHOOK_STREAK "webhook_streak" (text("webhook")) asc Conditional;
    /// Addresses that failed to authenticate too often.
    ABUSE "abuse" (int("shard"); text("address"), text("replica")) asc Versioned;
    /// Credentials of a user: the rows `password`, `factors`, `reset` (links), `known` (networks and devices) and, for
    /// each session, its hash. The user `service` has facts about the store: a hash that identifies the secret key of
    /// the store, the generation of its logs, and the key of the ids of derived events.
    ACCOUNT "account" (text("user"); text("item")) asc Conditional;
    /// The last tries of a limited action, by the limited subject.
    ATTEMPTS "attempts" (text("subject")) asc Conditional;
    /// The audit log, by organization; version = the time.
    AUDIT "audit" (text("organization"), int("bucket"); int("at"), text("id")) desc Versioned;
    /// Requests of a key and class in an hour, by replica; version = the time of the write.
    KEY_USAGE "key_usage" (text("project"), int("day"); int("hour"), text("key"), text("class"), text("replica")) asc Versioned;
    /// The last use of a key; version = the time.
    KEY_USE "key_use" (text("project"); text("key")) asc Versioned;
    /// The checkpoint of the upstream's feed, and the outcomes of lookups; version = the time.
    UPSTREAM "upstream" (text("name")) asc Versioned;
    /// The progress of alerts, by the dataset of their events.
    ALERT_PROGRESS "alert_progress" (text("dataset"); text("alert")) asc Versioned;
    /// The core that hands out the attempts of a shard of webhooks, all in one partition.
    SHARD_LEASE "shard_lease" (text("service"); int("shard")) asc Conditional;
    /// The trees over the logs of a generation: body = the hashes of a tile, version = their number.
    TREE_TILE "tree_tile" (text("dataset"), text("generation"), int("level"), int("bucket"); int("tile")) asc Versioned;
    /// The newest signed checkpoint of each log of a dataset, in the item `checkpoint`, and the keys that signed.
    SIGNED_TREE "signed_tree" (text("dataset"); text("log"), text("item")) asc Conditional;
    /// Files of the archive; version = the sequence number of the entry that has the hash.
    ARCHIVE_FILE "archive_file" (text("dataset"); text("date"), text("kind")) desc Versioned;
    /// The last replay of many deliveries of each webhook, by the webhook's shard.
    WEBHOOK_REPLAY "webhook_replay" (int("shard"); text("webhook")) asc Conditional;
    /// The request log: requests of keys by project and environment, an hour in a partition; version = the time.
    REQUEST_LOG "request_log" (text("scope"), int("bucket"); int("at"), text("id")) desc Versioned;
    /// Beginnings of the responses to failed attempts, encrypted; version = the time of the attempt.
    FAILED_RESPONSE "failed_response" (text("delivery"); int("attempt")) asc Versioned;
}

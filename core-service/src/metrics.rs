//! Metrics of a core. No label names a project, a key or a dataset of a project: their number has no bound.

/// The kinds of datasets. A metric of `projects` is the sum of all projects, or the value of the one farthest behind.
const DATASETS: &[&str] = &["live", "sandbox", "projects", "alerts"];
/// The lanes of webhooks: `slow` is shared by those whose endpoints fail or hang.
const LANES: &[&str] = &["normal", "slow"];

thesis_net::declare_metrics! {
    pub fn declare;

    LIMITS: Counter = "limits_refused_total",
        &[("limit", &["standard", "heavy", "verify", "month", "streams", "address", "sends", "tries", "searches", "log"])],
        "Requests refused by a limit: a rate class, the month's quota, open streams, failed authentications of an address, \
         test sends and replays, tries to sign in, searches of an organization at once, or reads of the log by an address";

    TOKENS_REFUSED: Counter = "service_tokens_refused_total", &[], "Calls with a wrong service token";

    STORE_CALLS: Counter = "store_calls_total",
        &[
            ("call", &["get", "get_many", "scan", "apply", "transact"]),
            ("outcome", &["ok", "lost", "unavailable", "in_doubt", "damaged", "unknown", "cancelled"]),
        ],
        "Calls of the store, by kind and outcome; lost is a condition that did not hold, in_doubt a write that may have \
         happened, cancelled a call whose caller gave up";
    STORE_SECONDS: Histogram = "store_call_seconds",
        &[("call", &["get", "get_many", "scan", "apply", "transact"])],
        "Time of calls of the store, retries included";
    STORE_REQUESTS: Counter = "store_requests_total", &[], "Requests of this core to its cluster";
    STORE_RETRIES: Counter = "store_retries_total", &[],
        "Requests that were sent to another node of the cluster, or repeated after the embedded store was opened again";

    APPENDED: Counter = "log_entries_appended_total", &[], "Entries that this core wrote to its logs";
    HEAD: Gauge = "log_head_position", &[("dataset", &["live", "sandbox"])],
        "The last entry in the log of a dataset, as the store has it";
    PROJECTED: Gauge = "log_projected_position", &[("dataset", DATASETS)],
        "The last entry that readers may see; of projects, the sum of those in use here";
    PROJECTION_LAG: Gauge = "log_projection_lag_entries", &[("dataset", &["live", "sandbox"])],
        "Entries whose rows are not written yet";
    PROJECTION_SECONDS: Gauge = "log_projection_lag_seconds", &[("dataset", &["live", "sandbox"])],
        "Time for which an entry has waited for its rows";
    FAN_OUT_LAG: Gauge = "fan_out_lag_entries", &[("dataset", DATASETS)],
        "Entries whose deliveries are not pending yet, where this core writes the log; of projects, the most";
    FAN_OUT_SECONDS: Gauge = "fan_out_lag_seconds", &[("dataset", DATASETS)],
        "Time for which an entry has waited for its deliveries to be pending; of projects, the longest";
    SEARCH_LAG: Gauge = "search_index_lag_entries", &[("dataset", DATASETS)],
        "Entries that searches do not see yet; of projects, the most";
    SEARCH_SECONDS: Gauge = "search_index_lag_seconds", &[("dataset", DATASETS)],
        "Time for which an entry has waited for the search index; of projects, the longest";
    FOLLOWED: Gauge = "datasets_followed", &[], "Datasets that this core reads or writes";
    WRITTEN: Gauge = "datasets_written", &[], "Datasets whose logs this core writes now";

    MEMBERS: Gauge = "cluster_members", &[], "Cores that may live, this one included";
    CONTROL_HEAD: Gauge = "control_log_position", &[], "The last change of accounts, keys and webhooks that this core knows";
    CONTROL_AGE: Gauge = "control_log_age_seconds", &[],
        "Time since this core last knew all changes of accounts, keys and webhooks; beyond 5 it serves nothing";

    SHARDS: Gauge = "webhook_shards_owned", &[], "Shards of webhooks whose attempts this core hands out";
    WORKERS: Gauge = "webhook_workers", &[], "Workers that are connected to this core";
    READY: Gauge = "webhook_queue_ready", &[("lane", LANES)],
        "Attempts in memory that are due, by lane; at most 256 of one webhook, the others wait in the store";
    OLDEST: Gauge = "webhook_queue_oldest_seconds", &[("lane", LANES)],
        "Time since the first attempt that is not handed out was due, by lane";
    OUT: Gauge = "webhook_attempts_out", &[("lane", LANES)], "Attempts that workers have and have not reported, by lane";
    WAITED: Histogram = "webhook_queue_seconds", &[("lane", LANES)],
        "Time from the moment that an attempt was due until a worker got it, by lane";
    DELIVERIES: Counter = "webhook_deliveries_total",
        &[("lane", LANES), ("outcome", &["delivered", "retrying", "failed"])],
        "What became of deliveries by attempts reported to this core: delivered, waiting for another attempt, or given up";

    CONNECTED: Gauge = "upstream_feed_connected", &[], "1 while this core follows the upstream, else 0";
    CONFIGURED: Gauge = "upstream_configured", &[], "1 where the settings of this core name an upstream, else 0";
    FEED_LAG: Gauge = "upstream_feed_lag_seconds", &[],
        "How far what was last taken in lay behind the upstream's time; 0 while this core does not follow it";
    FRAMES: Counter = "upstream_frames_total",
        &[(
            "type",
            &[
                "open", "thesis.created", "thesis.updated", "thesis.deleted", "thesis.engagement", "profile.updated",
                "token.updated", "gap", "unknown",
            ],
        )],
        "Frames that came from the upstream, by type";
    UPSTREAM_REFUSED: Counter = "upstream_refused_total",
        &[("kind", &["malformed", "field", "text_too_long", "ahead", "frame_too_large", "position", "unknown_type", "contradiction"])],
        "Objects and frames from the upstream that were refused, by kind";
    LOOKUPS: Counter = "upstream_lookups_total", &[("outcome", &["found", "missing", "failed", "held_back"])],
        "Lookups at the upstream, by outcome";
    MISSED_BY_FEED: Counter = "upstream_missed_by_feed_total", &[],
        "Changes that lookups found and that the feed had not sent";
    OBSERVED: Counter = "ingest_observations_total", &[("outcome", &["applied", "unchanged"])],
        "Observations given to the logs that this core writes, from the upstream and pushed ones, by outcome";
    PUSHED: Gauge = "ingest_push_timestamp_seconds", &[],
        "Unix time of the last call of this core that pushed observations; 0 before the first";

    ARCHIVE_BUILDS: Counter = "archive_days_built_total", &[("outcome", &["built", "failed"])],
        "Days of datasets whose files this core built, and tries that failed";
    ARCHIVE_MISSING: Gauge = "archive_days_missing", &[("dataset", &["live", "sandbox"])],
        "Days that are over and lack files in the archive, or whose files cannot be checked, where this core leads the log; \
         else 0";

    SIGN_INS: Counter = "sign_ins_total", &[("outcome", &["succeeded", "failed", "limited", "error"])],
        "Tries to sign in with a password, by outcome";
    MAILS: Counter = "mails_total", &[("outcome", &["sent", "failed", "dropped", "retried"])],
        "Letters by outcome; dropped is one without room, retried a try that failed and is made again";
    TICKETS: Counter = "stream_tickets_total", &[("step", &["created", "used"])],
        "Tickets of streams that were created, and openings that used one";
}

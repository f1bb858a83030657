//! The names that enum values have in JSON, both ways, in one place.

use crate::v1;

/// Generates the table of an enum's names and the functions that read it.
macro_rules! names {
    ($enum:ident, $table:ident, $name:ident, $parse:ident, { $($variant:ident => $text:literal),+ $(,)? }) => {
        #[doc = concat!("Every value of `", stringify!($enum), "` with its name.")]
        pub const $table: &[(v1::$enum, &str)] = &[$((v1::$enum::$variant, $text)),+];

        #[doc = concat!("The name of a `", stringify!($enum), "`.")]
        #[must_use]
        pub const fn $name(value: v1::$enum) -> &'static str {
            match value {
                v1::$enum::Unspecified => "unspecified",
                $(v1::$enum::$variant => $text,)+
            }
        }

        #[doc = concat!("The `", stringify!($enum), "` of a name.")]
        #[must_use]
        pub fn $parse(name: &str) -> Option<v1::$enum> {
            match name {
                $($text => Some(v1::$enum::$variant),)+
                _ => None,
            }
        }
    };
}

names!(EventType, EVENT_TYPES, event_type_name, parse_event_type, {
    ThesisCreated => "thesis.created",
    ProfileUpdated => "profile.updated",
    TokenActivity => "token.activity",
    TokenThesisVelocity => "token.thesis_velocity",
    AlertFiring => "alert.firing",
    AlertResolved => "alert.resolved",
});

/// True for the types of alerts' events, which are sent only to those who name them.
#[must_use]
pub const fn is_of_alerts(event_type: v1::EventType) -> bool {
    matches!(event_type, v1::EventType::AlertFiring | v1::EventType::AlertResolved)
}

names!(AlertMetric, ALERT_METRICS, alert_metric_name, parse_alert_metric, {
    ThesisCount5m => "thesis_count_5m",
    ThesisCount1h => "thesis_count_1h",
    ThesisCount24h => "thesis_count_24h",
    UniqueAuthors24h => "unique_authors_24h",
    ChangePct => "change_pct",
});

names!(AlertState, ALERT_STATES, alert_state_name, parse_alert_state, {
    Ok => "ok",
    Pending => "pending",
    Firing => "firing",
    NoData => "no_data",
});

names!(Source, SOURCES, source_name, parse_source, {
    Upstream => "upstream",
    Sandbox => "sandbox",
    Derived => "derived",
});

names!(WebhookStatus, WEBHOOK_STATUSES, webhook_status_name, parse_webhook_status, {
    Enabled => "enabled",
    Disabled => "disabled",
    DisabledFailing => "disabled_failing",
});

names!(WebhookPayload, WEBHOOK_PAYLOADS, webhook_payload_name, parse_webhook_payload, {
    Full => "full",
    Thin => "thin",
});

names!(IngestState, INGEST_STATES, ingest_state_name, parse_ingest_state, {
    Up => "up",
    Down => "down",
    Off => "off",
});

names!(Breaker, BREAKERS, breaker_name, parse_breaker, {
    Closed => "closed",
    Open => "open",
    HalfOpen => "half_open",
});

names!(DeliveryStatus, DELIVERY_STATUSES, delivery_status_name, parse_delivery_status, {
    Pending => "pending",
    Delivered => "delivered",
    Failed => "failed",
    Retrying => "retrying",
});

names!(VerificationReason, VERIFICATION_REASONS, verification_reason_name, parse_verification_reason, {
    Verified => "VERIFIED",
    ProfileNotFound => "PROFILE_NOT_FOUND",
    TokenNotFound => "TOKEN_NOT_FOUND",
    NoThesisInWindow => "NO_THESIS_IN_WINDOW",
    TextNotFound => "TEXT_NOT_FOUND",
    ThesisDeleted => "THESIS_DELETED",
});

names!(ServedFrom, SERVED_FROM, served_from_name, parse_served_from, {
    LiveSync => "live_sync",
    Cache => "cache",
});

/// Prefix of the id that counts requests of people in a project; the project's id follows.
pub const CONSOLE: &str = "console/";

names!(Environment, ENVIRONMENTS, environment_name, parse_environment, {
    Test => "test",
    Live => "live",
});

names!(ThesisSort, THESIS_SORTS, thesis_sort_name, parse_thesis_sort, {
    CreatedAtDesc => "created_at_desc",
    CreatedAtAsc => "created_at_asc",
    LikesDesc => "likes_desc",
});

names!(SearchSort, SEARCH_SORTS, search_sort_name, parse_search_sort, {
    Relevance => "relevance",
    CreatedAtDesc => "created_at_desc",
});

names!(SearchType, SEARCH_TYPES, search_type_name, parse_search_type, {
    Theses => "theses",
    Profiles => "profiles",
    Tokens => "tokens",
});

names!(ServiceState, SERVICE_STATES, service_state_name, parse_service_state, {
    Ok => "ok",
    Degraded => "degraded",
    Down => "down",
});

names!(ProcessState, PROCESS_STATES, process_state_name, parse_process_state, {
    Ok => "ok",
    Failing => "failing",
    Stalled => "stalled",
});

names!(ProcessRole, PROCESS_ROLES, process_role_name, parse_process_role, {
    Edge => "edge",
    Core => "core",
    Worker => "worker",
});

names!(FeedState, FEED_STATES, feed_state_name, parse_feed_state, {
    Up => "up",
    Down => "down",
});

/// All scopes of an API key, each with true if it is a default scope.
pub const SCOPES: &[(&str, bool)] = &[
    ("profiles:read", true),
    ("theses:read", true),
    ("tokens:read", true),
    ("search:read", true),
    ("events:read", true),
    ("streams:read", true),
    ("webhooks:write", false),
    ("alerts:write", false),
    ("wallets:read", false),
    ("archive:read", false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_back() {
        for &(value, name) in EVENT_TYPES {
            assert_eq!(event_type_name(value), name);
            assert_eq!(parse_event_type(name), Some(value));
        }
        assert_eq!(parse_event_type("Thesis.Created"), None);
        assert_eq!(parse_event_type("unspecified"), None);
        assert_eq!(parse_webhook_status("disabled_failing"), Some(v1::WebhookStatus::DisabledFailing));
        assert_eq!(parse_thesis_sort(thesis_sort_name(v1::ThesisSort::LikesDesc)), Some(v1::ThesisSort::LikesDesc));
    }
}

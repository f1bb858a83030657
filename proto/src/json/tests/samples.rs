//! Messages to take snapshots of.

use prost_types::Timestamp;

use crate::{time::from_millis, v1};

pub(super) fn at(offset: i64) -> Option<Timestamp> {
    Some(from_millis(1_767_225_600_000 + offset))
}

pub(super) fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub(super) fn profile_ref() -> Option<v1::ProfileRef> {
    Some(v1::ProfileRef {
        id: "fp_1".into(),
        handle: "@sbx_ana".into(),
        display_name: text("Ana (sandbox)"),
        avatar_url: text("https://example.com/ana.png"),
    })
}

pub(super) fn token_ref() -> Option<v1::TokenRef> {
    Some(v1::TokenRef {
        id: "tk_1".into(),
        symbol: "$RUN".into(),
        name: text("Run"),
        chain: "sandbox".into(),
        address: "sbx_run".into(),
    })
}

pub(super) fn profile() -> v1::Profile {
    v1::Profile {
        id: "fp_1".into(),
        handle: "@sbx_ana".into(),
        display_name: text("Ana (sandbox)"),
        avatar_url: text("https://example.com/ana.png"),
        profile_url: text("https://example.com/ana"),
        bio: text("Says \"hello\" 👋"),
        verified: Some(true),
        source: v1::Source::Sandbox.into(),
        livemode: false,
        created_at: at(-1),
        first_seen_at: at(0),
        updated_at: at(1),
        source_updated_at: at(2),
        stale: Some(true),
        wallet: Some(v1::Wallet { address: "0xabc".into(), network: "sandbox".into() }),
    }
}

pub(super) fn sparse_profile() -> v1::Profile {
    v1::Profile {
        id: "fp_2".into(),
        handle: "@two".into(),
        source: v1::Source::Upstream.into(),
        livemode: true,
        first_seen_at: at(0),
        updated_at: at(1),
        ..Default::default()
    }
}

pub(super) fn thesis() -> v1::Thesis {
    v1::Thesis {
        id: "th_1".into(),
        profile: profile_ref(),
        token: token_ref(),
        text: "Line one\nline two".into(),
        public_url: None,
        likes: Some(3),
        replies: Some(0),
        created_at: at(0),
        updated_at: at(5),
        source: v1::Source::Sandbox.into(),
        livemode: false,
    }
}

pub(super) fn token() -> v1::Token {
    v1::Token {
        id: "tk_1".into(),
        symbol: "$RUN".into(),
        name: text("Run"),
        chain: "base".into(),
        chain_id: Some(8453),
        address: "0xabc".into(),
        logo_url: text("https://example.com/run.png"),
        platform_url: text("https://example.com/run"),
        thesis_count: 10,
        unique_thesis_authors: 4,
        recent_thesis_count: 2,
        first_seen_at: at(0),
        last_activity_at: at(1),
        source: v1::Source::Upstream.into(),
        livemode: true,
        updated_at: at(2),
        source_updated_at: at(3),
        stale: Some(true),
    }
}

pub(super) fn sparse_token() -> v1::Token {
    v1::Token {
        id: "tk_2".into(),
        symbol: "$NEW".into(),
        chain: "sandbox".into(),
        source: v1::Source::Sandbox.into(),
        first_seen_at: at(0),
        updated_at: at(0),
        stale: Some(false),
        ..Default::default()
    }
}

pub(super) fn event(event_type: v1::EventType, source: v1::Source, data: v1::event::Data) -> v1::Event {
    v1::Event {
        id: "evt_1".into(),
        r#type: event_type.into(),
        created_at: at(7),
        livemode: false,
        source: source.into(),
        test: None,
        data: Some(data),
    }
}

pub(super) fn thesis_created() -> v1::Event {
    let data = v1::event::Data::ThesisCreated(v1::ThesisCreatedData {
        thesis_id: "th_1".into(),
        profile: profile_ref(),
        token: token_ref(),
        text: "Line one".into(),
        created_at: at(0),
        public_url: None,
    });
    v1::Event { test: Some(true), ..event(v1::EventType::ThesisCreated, v1::Source::Sandbox, data) }
}

pub(super) fn webhook() -> v1::Webhook {
    v1::Webhook {
        id: "wh_1".into(),
        url: "https://hooks.example.com/".into(),
        description: text("All of it"),
        events: vec![v1::EventType::ThesisCreated.into(), v1::EventType::TokenThesisVelocity.into()],
        filters: Some(v1::EventFilters {
            token: vec!["$RUN".into()],
            handle: vec!["@ana".into()],
            chain: vec!["base".into()],
            text: Vec::new(),
        }),
        status: v1::WebhookStatus::DisabledFailing.into(),
        secret_prefix: "whsec_abcd".into(),
        livemode: true,
        created_at: at(0),
        updated_at: at(1),
        headers: vec!["Authorization".into()],
        payload: v1::WebhookPayload::Thin.into(),
        public_key: "whpk_abcd".into(),
    }
}

pub(super) fn alert() -> v1::Alert {
    v1::Alert {
        id: "al_1".into(),
        name: "Busy".into(),
        token: token_ref(),
        metric: v1::AlertMetric::ThesisCount1h.into(),
        above: Some(10.5),
        below: None,
        recover: 8.0,
        r#for: "5m".into(),
        keep_firing_for: "0s".into(),
        state: v1::AlertState::Firing.into(),
        state_since: at(2),
        livemode: true,
        created_at: at(0),
        updated_at: at(1),
    }
}

pub(super) fn sparse_webhook() -> v1::Webhook {
    v1::Webhook {
        description: None,
        filters: None,
        status: v1::WebhookStatus::Enabled.into(),
        headers: Vec::new(),
        payload: v1::WebhookPayload::Full.into(),
        ..webhook()
    }
}

pub(super) fn delivery() -> v1::WebhookDelivery {
    v1::WebhookDelivery {
        id: "del_1".into(),
        webhook_id: "wh_1".into(),
        event_id: "evt_1".into(),
        event_type: v1::EventType::ProfileUpdated.into(),
        status: v1::DeliveryStatus::Retrying.into(),
        attempt: 1,
        max_attempts: 6,
        response_status: Some(500),
        latency_ms: Some(12),
        next_attempt_at: at(60_000),
        is_replay: true,
        is_test: false,
        created_at: at(0),
        delivered_at: at(9),
        attempts: vec![v1::DeliveryAttempt::default()],
    }
}

/// How a webhook's deliveries go, after a replay.
pub(super) fn webhook_insight() -> v1::WebhookInsight {
    let last_hour = v1::WebhookAttempts {
        since: at(0),
        attempts: 4,
        successes: 3,
        success_rate: Some(0.75),
        latency_p50_ms: Some(12),
        latency_p99_ms: Some(299),
    };
    v1::WebhookInsight {
        webhook_id: "wh_1".into(),
        last_hour: Some(last_hour),
        last_day: Some(v1::WebhookAttempts { since: at(0), ..v1::WebhookAttempts::default() }),
        oldest_pending_at: at(9),
        awaits_verification: true,
        replay: Some(v1::WebhookReplay {
            id: "rpl_1".into(),
            webhook_id: "wh_1".into(),
            since: at(0),
            status: v1::DeliveryStatus::Failed.into(),
            examined: 7,
            replayed: 2,
            done: true,
            created_at: at(1),
            finished_at: at(2),
            examined_to: at(0),
        }),
        livemode: true,
        computed_at: at(9),
        hours: vec![v1::WebhookAttempts::default()],
        old_secret_until: at(9),
    }
}

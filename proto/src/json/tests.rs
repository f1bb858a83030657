//! A snapshot of each resource, full and sparse, checked against its schema.

mod samples;
mod schema;

use utoipa::{ToSchema as _, openapi::RefOr};

use self::{samples::*, schema::json};
use super::*;
use crate::v1;

macro_rules! snapshots {
    ($($name:ident: $($message:expr => $view:ty),+;)+) => {
        $(#[test]
        fn $name() {
            let parts = [$(json(&<$view>::from(&$message))),+];
            insta::assert_snapshot!(parts.join("\n"));
        })+
    };
}

snapshots! {
    profiles: profile() => Profile, sparse_profile() => Profile;
    profile_wallets:
        v1::ProfileWallets {
            profile: profile_ref(),
            wallets: vec![v1::ObservedWallet { address: "0xabc".into(), network: "base".into(), observed_at: at(0) }],
            livemode: true,
        } => ProfileWallets;
    theses:
        thesis() => Thesis,
        v1::Thesis { likes: None, replies: None, livemode: true, source: v1::Source::Upstream.into(), ..thesis() } => Thesis;
    tokens: token() => Token, sparse_token() => Token;
    token_activity:
        v1::TokenActivity {
            token: token_ref(),
            thesis_count_1h: 1,
            thesis_count_24h: 2,
            unique_authors_24h: 1,
            last_activity_at: at(0),
            timeline: vec![v1::TimelineBucket { bucket_start: at(0), theses: 2, unique_authors: 1 }],
            recent_theses: vec![thesis()],
            livemode: false,
            computed_at: at(9),
        } => TokenActivity,
        v1::TokenActivity { token: token_ref(), computed_at: at(9), ..Default::default() } => TokenActivity;
    thesis_velocity:
        v1::ThesisVelocity {
            token: token_ref(),
            last_5m: 1,
            last_1h: 3,
            previous_1h: 2,
            change_pct: Some(50.0),
            livemode: true,
            computed_at: at(0),
        } => ThesisVelocity,
        v1::ThesisVelocity { token: token_ref(), last_1h: 3, computed_at: at(0), ..Default::default() } => ThesisVelocity;
    search_result:
        v1::SearchResult {
            query: "run".into(),
            theses: vec![thesis()],
            profiles: vec![sparse_profile()],
            tokens: vec![sparse_token()],
            livemode: false,
        } => SearchResult,
        v1::SearchResult { query: "nothing".into(), livemode: true, ..Default::default() } => SearchResult;
    thesis_verification:
        v1::ThesisVerification {
            verified: true,
            profile_id: text("fp_1"),
            thesis_id: text("th_1"),
            created_at: at(0),
            token: text("$RUN"),
            checks: Some(v1::VerificationChecks {
                identity: true,
                token: true,
                time_window: true,
                thesis_exists: true,
                not_deleted: true,
                contains: Some(true),
            }),
            reason: v1::VerificationReason::Verified.into(),
            freshness: Some(v1::VerificationFreshness {
                checked_at: at(1),
                upstream_synced_at: at(2),
                served_from: v1::ServedFrom::LiveSync.into(),
            }),
            livemode: true,
            receipt: None,
            statement: None,
        } => ThesisVerification,
        v1::ThesisVerification {
            reason: v1::VerificationReason::NoThesisInWindow.into(),
            checks: Some(v1::VerificationChecks::default()),
            freshness: Some(v1::VerificationFreshness {
                checked_at: at(1),
                upstream_synced_at: None,
                served_from: v1::ServedFrom::Cache.into(),
            }),
            ..Default::default()
        } => ThesisVerification;
    event_thesis_created: thesis_created() => Event;
    event_profile_updated:
        event(v1::EventType::ProfileUpdated, v1::Source::Upstream, v1::event::Data::ProfileUpdated(v1::ProfileUpdatedData {
            profile: Some(sparse_profile()),
            changed: vec!["bio".into(), "handle".into()],
        })) => Event;
    event_token_activity:
        event(v1::EventType::TokenActivity, v1::Source::Derived, v1::event::Data::TokenActivity(v1::TokenActivityData {
            token: token_ref(),
            thesis_count_1h: 1,
            thesis_count_24h: 2,
            unique_authors_24h: 1,
            latest_thesis_id: text("th_1"),
            last_activity_at: at(0),
        })) => Event,
        event(v1::EventType::TokenActivity, v1::Source::Derived, v1::event::Data::TokenActivity(v1::TokenActivityData {
            token: token_ref(),
            ..Default::default()
        })) => Event;
    event_token_thesis_velocity:
        event(
            v1::EventType::TokenThesisVelocity,
            v1::Source::Derived,
            v1::event::Data::TokenThesisVelocity(v1::TokenThesisVelocityData {
                token: token_ref(),
                last_5m: 1,
                last_1h: 3,
                previous_1h: 9,
                change_pct: Some(-66.67),
                computed_at: at(0),
            }),
        ) => Event;
    created_test_thesis:
        v1::TestThesisResult { thesis: Some(thesis()), event: Some(thesis_created()) } => TestThesisResult;
    webhooks: webhook() => Webhook, sparse_webhook() => Webhook;
    webhook_with_secret:
        v1::CreateWebhookResponse { webhook: Some(sparse_webhook()), secret: "whsec_secret".into() } => WebhookWithSecret;
    deleted_webhook: v1::DeleteWebhookResponse { id: "wh_1".into() } => DeletedWebhook;
    alerts:
        alert() => Alert,
        v1::ListAlertsResponse { data: vec![alert()], next_cursor: text("next"), has_more: true } => AlertList,
        v1::DeleteAlertResponse { id: "al_1".into() } => DeletedAlert;
    event_alert:
        event(
            v1::EventType::AlertFiring,
            v1::Source::Derived,
            v1::event::Data::Alert(v1::AlertEventData {
                alert: Some(alert()),
                value: 12.0,
                threshold: 10.5,
                crossed_at: at(2),
            }),
        ) => Event;
    webhook_deliveries:
        delivery() => WebhookDelivery,
        v1::WebhookDelivery {
            status: v1::DeliveryStatus::Pending.into(),
            response_status: None,
            latency_ms: None,
            next_attempt_at: None,
            delivered_at: None,
            ..delivery()
        } => WebhookDelivery;
    webhook_insights:
        webhook_insight() => WebhookInsight,
        v1::WebhookInsight { oldest_pending_at: None, replay: None, ..webhook_insight() } => WebhookInsight;
    lists:
        v1::ListThesesResponse { data: vec![thesis()], next_cursor: text("next"), has_more: true } => ThesisList,
        v1::ListEventsResponse { data: vec![], next_cursor: None, has_more: false } => EventList,
        v1::ListWebhooksResponse { data: vec![sparse_webhook()], next_cursor: None, has_more: false } => WebhookList,
        v1::ListDeliveriesResponse { data: vec![delivery()], next_cursor: None, has_more: false } => WebhookDeliveryList;
    key_info:
        v1::KeyInfo {
            id: "key_1".into(),
            name: "Default".into(),
            prefix: "svc_test_abcd".into(),
            environment: v1::Environment::Test.into(),
            livemode: false,
            scopes: vec!["theses:read".into()],
            project: Some(v1::KeyProject { id: "prj_1".into(), name: "default".into() }),
            organization: Some(v1::KeyOrganization { id: "org_1".into(), name: "default".into(), plan: "pro".into() }),
            created_at: at(0),
            expires_at: None,
        } => KeyInfo;
    usage:
        v1::Usage {
            month: Some(v1::MonthUsage { start: at(0), end: at(1), limit: 10, used: 1, remaining: 9 }),
            rates: Some(v1::RateUsages {
                standard: Some(v1::RateUsage { limit: 300, remaining: 299, reset: 1_767_225_660 }),
                heavy: Some(v1::RateUsage { limit: 60, remaining: 60, reset: 1_767_225_660 }),
                verify: Some(v1::RateUsage { limit: 60, remaining: 60, reset: 1_767_225_660 }),
            }),
            streams: Some(v1::StreamUsage { limit: 2, open: 1 }),
            webhooks: Some(v1::WebhookUsage { limit: 3, used: 0 }),
            livemode: false,
        } => Usage;
    status:
        v1::ServiceStatus {
            generated_at: at(0),
            state: v1::ServiceState::Degraded.into(),
            window_seconds: 1_800,
            roles: vec![v1::RoleStatus {
                role: v1::ProcessRole::Edge.into(),
                state: v1::ServiceState::Down.into(),
                processes: vec![v1::ProcessStatus {
                    id: "proc_1".into(),
                    state: v1::ProcessState::Stalled.into(),
                    version: "0.1.0".into(),
                    last_seen_at: at(1),
                }],
            }],
            latencies: vec![v1::LatencySummary {
                role: v1::ProcessRole::Core.into(),
                name: "request".into(),
                class: text("heavy"),
                count: 3,
                p50_ms: Some(1.25),
                p90_ms: Some(2.5),
                p99_ms: None,
                timeline: vec![v1::LatencyMinute { start: at(2), count: 1, p50_ms: Some(1.5), p99_ms: None }],
            }],
            deliveries: Some(v1::DeliverySummary { delivered: 3, retrying: 2, failed: 1, success_ratio: Some(0.75) }),
            feed: Some(v1::FeedSummary { state: v1::FeedState::Up.into(), lag_ms: Some(7) }),
        } => ServiceStatus,
        v1::ServiceStatus {
            generated_at: at(0),
            state: v1::ServiceState::Ok.into(),
            deliveries: Some(v1::DeliverySummary::default()),
            ..Default::default()
        } => ServiceStatus;
    streams:
        v1::StreamTicket { ticket: "tkt_1".into(), expires_at: at(60_000) } => StreamTicket,
        v1::StreamGap {
            first_cursor: "a".into(),
            last_cursor: "b".into(),
            path: "/v1/events?types=thesis.created".into(),
            skipped: Some(7),
        } => StreamGap;
}

#[test]
fn discovery() {
    let mut named = Discovery::new("1.0.0");
    named.documentation = Some("http://localhost/docs");
    named.reference = Some("http://localhost/reference");
    named.openapi = Some("http://localhost/v1/openapi.json");
    named.websocket = Some("ws://localhost/v1/stream");
    insta::assert_snapshot!([json(&named), json(&Discovery::new("1.0.0"))].join("\n"));
}

#[test]
fn errors() {
    let details = serde_json::json!({"errors": [{"param": "limit", "message": "must be 1 to 100"}]});
    let bare = Error {
        r#type: "validation",
        code: "VALIDATION_FAILED",
        message: "limit must be 1 to 100",
        request_id: "req_1",
        param: None,
        details: None,
        doc_url: None,
    };
    let full = Error {
        param: Some("limit"),
        details: Some(&details),
        doc_url: Some("https://example.com/".to_owned()),
        ..bare
    };
    let bare = Error { param: None, details: None, doc_url: None, ..full };
    insta::assert_snapshot!([json(&ErrorEnvelope { error: full }), json(&ErrorEnvelope { error: bare })].join("\n"));
}

#[test]
fn receipts_and_statements_hold_json_as_it_was_signed() {
    let receipt = v1::Receipt {
        thesis_id: "th_1".into(),
        evidence: r#"{"sequence":8,"text":"é\\n"}"#.into(),
        salt: "c2FsdA==".into(),
        index: 7,
        proof: "proof\n".into(),
        keys: vec!["key".into()],
        livemode: true,
    };
    let value: serde_json::Value = serde_json::from_str(&json(&Receipt::from(&receipt))).unwrap();
    let evidence = serde_json::json!({"sequence": 8, "text": "é\\n"});
    let expected = serde_json::json!({
        "object": "receipt", "thesis_id": "th_1", "evidence": evidence, "salt": "c2FsdA==", "index": 7,
        "proof": "proof\n", "keys": ["key"], "livemode": true,
    });
    assert_eq!(value, expected);
    let statement = v1::Statement {
        claim: r#"{"handle":"@a"}"#.into(),
        verdict: r#"{"verified":false}"#.into(),
        checkpoint: "note".into(),
        signature: "line".into(),
        keys: vec!["key".into()],
        livemode: false,
    };
    let verification = v1::ThesisVerification {
        reason: v1::VerificationReason::NoThesisInWindow.into(),
        freshness: Some(v1::VerificationFreshness { served_from: v1::ServedFrom::Cache.into(), ..Default::default() }),
        statement: Some(statement),
        ..Default::default()
    };
    let value: serde_json::Value = serde_json::from_str(&json(&ThesisVerification::from(&verification))).unwrap();
    let expected = serde_json::json!({
        "object": "statement", "claim": {"handle": "@a"}, "verdict": {"verified": false}, "checkpoint": "note",
        "signature": "line", "keys": ["key"], "livemode": false,
    });
    assert_eq!((&value["statement"], value.get("receipt")), (&expected, None));
}

#[test]
fn an_event_has_one_form() {
    let bytes = event_json(&thesis_created());
    assert_eq!(bytes, serde_json::to_vec(&Event::from(&thesis_created())).unwrap());
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with(
        r#"{"object":"event","id":"evt_1","type":"thesis.created","created_at":"2026-01-01T00:00:00.007Z","#
    ));
    assert!(!text.contains('\n'), "one line, so that it can be one SSE data field");
}

#[test]
fn a_thin_event_has_five_fields() {
    let thin = thin_event(&event_json(&thesis_created())).unwrap();
    let expected = r#"{"object":"event","id":"evt_1","type":"thesis.created","created_at":"2026-01-01T00:00:00.007Z","#;
    assert_eq!(String::from_utf8(thin).unwrap(), format!("{expected}\"livemode\":{}}}", thesis_created().livemode));
    assert_eq!(thin_event(b"{}"), None);
}

#[test]
fn rendered_rows_give_the_list_of_their_messages() {
    fn bytes(list: &impl serde::Serialize) -> String {
        serde_json::to_string(list).unwrap()
    }
    for (next_cursor, has_more) in [(text("next"), true), (None, false)] {
        let theses = [thesis(), v1::Thesis { likes: None, text: "\"\n\u{1}é🚀".into(), ..thesis() }];
        let rows = theses.each_ref().map(|thesis| render(&Thesis::from(thesis)));
        let rendered = List::new(rows.iter().map(|row| &**row).collect(), next_cursor.as_deref(), has_more);
        let page = v1::ListThesesResponse { data: theses.into(), next_cursor: next_cursor.clone(), has_more };
        assert_eq!(bytes(&rendered), bytes(&ThesisList::from(&page)));

        let rows = [render(&Event::from(&thesis_created()))];
        let rendered = List::new(rows.iter().map(|row| &**row).collect(), next_cursor.as_deref(), has_more);
        let page = v1::ListEventsResponse { data: vec![thesis_created()], next_cursor: next_cursor.clone(), has_more };
        assert_eq!(bytes(&rendered), bytes(&EventList::from(&page)));
    }
}

#[test]
fn a_message_with_missing_parts_does_not_panic() {
    let text = String::from_utf8(event_json(&v1::Event::default())).unwrap();
    assert!(text.ends_with(r#""data":null}"#), "{text}");
}

/// The schemas themselves, as the API's description uses them.
#[test]
fn openapi_schemas() {
    let mut all = Vec::new();
    macro_rules! add {
        ($($view:ty),+ $(,)?) => {
            $(all.push((<$view>::name().into_owned(), <$view as utoipa::PartialSchema>::schema()));
            <$view>::schemas(&mut all);)+
        };
    }
    add!(
        ThesisList,
        EventList,
        WebhookList,
        WebhookDeliveryList,
        SearchResult,
        ThesisVerification,
        TokenActivity,
        ThesisVelocity,
        WebhookWithSecret,
        DeletedWebhook,
        AlertList,
        DeletedAlert,
        WebhookInsight,
        WebhookReplay,
        ProfileWallets,
        KeyInfo,
        Usage,
        TestThesisResult,
        StreamTicket,
        StreamGap,
        Discovery,
        ErrorEnvelope,
        ThesisSort,
        SearchSort,
        SearchType,
    );
    let map: std::collections::BTreeMap<String, RefOr<_>> = all.into_iter().collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&map).unwrap());
}

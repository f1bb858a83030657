//! The rules of `docs/stream-conformance.md`: the service passes those of servers, and `listen` those of clients.

use stream_conformance::{Judgement, client, server};
use thesis_proto::v1::Environment;

use crate::harness::{ALL_SCOPES, Service, ingest::token};

on_both_stores![the_service_passes_every_rule];

/// More than a stream replays.
const BACKLOG: usize = 1_003;

/// Demands that every rule was judged, and passed.
fn assert_passed(judged: &[Judgement], rules: usize) {
    assert!(judged.len() >= rules, "{} judgements", judged.len());
    let missed: Vec<String> = judged.iter().filter(|rule| rule.verdict.is_err()).map(ToString::to_string).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

async fn the_service_passes_every_rule(service: &Service) {
    let project = service.project_on("huge").await;
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let narrow = project.key(Environment::Test, &["theses:read"]).await;
    let other = service.project_on("free").await.key(Environment::Test, ALL_SCOPES).await;
    let backlog_cursor = key.client.stream("?types=thesis.created").await.first_cursor().await;
    let texts: Vec<String> = (0..BACKLOG).map(|number| number.to_string()).collect();
    service.post_all(&project.dataset(), &token("sandbox", "backlog-address", "BACKLOG"), &texts).await;
    let options = server::Options {
        url: service.http.clone(),
        grpc: Some(service.grpc.clone()),
        key: key.raw,
        narrow_key: Some(narrow.raw),
        other_key: Some(other.raw),
        backlog_cursor: Some(backlog_cursor),
        backlog_token: Some("BACKLOG".to_owned()),
        all: false,
    };
    assert_passed(&server::judge(options).await.unwrap(), server::RULES.len());
}

#[tokio::test]
async fn listen_passes_the_rules_of_clients() {
    // Nothing listens there: each event ends in a line that says so.
    let command = [env!("CARGO_BIN_EXE_trade-thesis"), "listen", "--forward-to", "http://127.0.0.1:9/hook"];
    let command = command.map(str::to_owned);
    assert_passed(&client::judge(&command).await.unwrap(), client::RULES.len());
}

//! The suite finds what is wrong with clients and servers.

use stream_conformance::{Judgement, Miss, client, server};
use tokio::net::TcpListener;

/// Judges a script of the shell.
async fn judge(script: &str) -> Vec<Judgement> {
    let command = ["bash", "-c", script].map(str::to_owned);
    client::judge(&command).await.expect("bash")
}

fn passed(judged: &[Judgement]) -> Vec<&str> {
    judged.iter().filter(|judgement| judgement.verdict.is_ok()).map(|judgement| judgement.rule).collect()
}

#[tokio::test]
async fn a_program_that_opens_no_stream_passes_no_rule() {
    let judged = judge("true").await;
    assert_eq!(judged.len(), client::RULES.len());
    assert!(judged.iter().all(Judgement::is_failure), "{:?}", passed(&judged));
}

#[tokio::test]
async fn a_client_that_opens_the_stream_once_passes_the_rules_of_the_first_opening() {
    let script = r#"exec 3<>"/dev/tcp/127.0.0.1/${API_URL##*:}"
        printf 'GET /v1/events/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n\r\n' "$API_KEY" >&3
        cat <&3"#;
    let judged = judge(script).await;
    assert_eq!(passed(&judged), ["key-in-header", "first-opening", "pieces"]);
    let half = judged.iter().find(|judgement| judgement.rule == "half-event").expect("a rule");
    let Err(Miss::Failed(why)) = &half.verdict else { panic!("{half}") };
    assert_eq!(why, "only 1 openings of the stream");
}

#[tokio::test]
async fn what_is_no_server_is_not_judged() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let options = server::Options {
        url,
        grpc: None,
        key: "svc_test_x".to_owned(),
        narrow_key: None,
        other_key: None,
        backlog_cursor: None,
        backlog_token: None,
        all: false,
    };
    assert!(server::judge(options).await.is_err());
}

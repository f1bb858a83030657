//! Against a server of a few lines, which answers one request with the bytes that a test gives it.

use secrecy::SecretString;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;

/// The action after the response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The end of the connection.
    Close,
    /// Silence.
    Wait,
}

/// A client of a server that answers so, and the head of the request that it gets.
async fn serve(answer: impl Into<Vec<u8>>, then: Then) -> (UpstreamClient, JoinHandle<String>) {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api/v1/?x=1#y", listener.local_addr().unwrap());
    let head = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        // The client may hang up before it has all.
        let _ = socket.write_all(&answer).await;
        if then == Then::Wait {
            // Ends when the client closes the connection.
            tokio::spawn(async move { socket.read_to_end(&mut Vec::new()).await });
        }
        String::from_utf8(head).unwrap()
    });
    (client(&url).unwrap(), head)
}

fn settings(url: &str) -> UpstreamSettings {
    UpstreamSettings {
        url: Url::parse(url).unwrap(),
        token: SecretString::from("s3cret\n"),
        // Long enough for an answer at once on a busy machine.
        timeout: Duration::from_secs(5),
        rps: 1,
        backfill: Duration::ZERO,
        refresh: Duration::ZERO,
    }
}

fn client(url: &str) -> Result<UpstreamClient, String> {
    UpstreamClient::new(&settings(url))
}

fn impatient(mut client: UpstreamClient) -> UpstreamClient {
    client.timeout = Duration::from_millis(100);
    client
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

fn why(error: LookupError) -> String {
    match error {
        LookupError::Failed { status: None, retry_after_s: None, why } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_request_keeps_the_bases_path_and_encodes_what_it_names() {
    let (client, head) = serve(answer("200 OK", "", "{}"), Then::Close).await;
    assert_eq!(client.token("b/a se", "0x?#%ü\\").await.unwrap(), "{}");
    let head = head.await.unwrap();
    let line = "GET /api/v1/tokens/b%2Fa%20se/0x%3F%23%25%C3%BC%5C HTTP/1.1\r\n";
    assert!(head.starts_with(line), "{head}");
    let head = head.to_ascii_lowercase();
    for header in ["authorization: bearer s3cret\r\n", "user-agent: trade-thesis\r\n", "accept: application/json\r\n"] {
        assert!(head.contains(header), "{head}");
    }
    assert!(!head.contains("accept-encoding"), "{head}");
}

#[test]
fn each_lookup_has_its_url() {
    let client = client("https://up.example:8443").unwrap();
    let url = |path: &[&str], query: &[(&str, &str)]| client.url(path, query).map(|url| url.to_string());
    let at = |rest: &str| Some(format!("https://up.example:8443/{rest}"));
    assert_eq!(url(&["profiles", "u1", "wallets"], &[]), at("profiles/u1/wallets"));
    assert_eq!(url(&["profiles"], &[("handle", "a&b=c d+é")]), at("profiles?handle=a%26b%3Dc+d%2B%C3%A9"));
    assert_eq!(url(&["feed"], &[("after", "a/b?")]), at("feed?after=a%2Fb%3F"));
    for unnamed in ["", ".", "..", "a\nb", "\t"] {
        assert_eq!(url(&["profiles", unnamed], &[]), None, "{unnamed:?}");
    }
    assert_eq!(url(&["profiles", "%2e%2E"], &[]), at("profiles/%252e%252E"));
}

#[tokio::test]
async fn pages_are_requested_by_token_profile_or_at_all() {
    let on = ThesisScope::Token { chain: "base", address: "0xAb" };
    for (of, since, cursor, expected) in [
        (on, Some(0), None, "chain=base&address=0xAb&since=1970-01-01T00%3A00%3A00.000Z&limit=200"),
        (ThesisScope::Profile("u 1"), None, Some("c+1"), "profile=u+1&cursor=c%2B1&limit=200"),
        (ThesisScope::Everything, None, None, "limit=200"),
    ] {
        let (client, head) = serve(answer("200 OK", "", "{}"), Then::Close).await;
        client.theses(of, since, cursor).await.unwrap();
        let line = format!("GET /api/v1/theses?{expected} HTTP/1.1\r\n");
        let head = head.await.unwrap();
        assert!(head.starts_with(&line), "{head}");
    }
}

#[tokio::test]
async fn other_answers_are_none() {
    let failed = |status: u16, retry_after_s, reason: &str| LookupError::Failed {
        status: Some(status),
        retry_after_s,
        why: format!("the upstream answers {reason}"),
    };
    for (status, headers, expected) in [
        ("404 Not Found", "", LookupError::NotFound),
        ("410 Gone", "", failed(410, None, "410 Gone")),
        ("204 No Content", "", failed(204, None, "204 No Content")),
        ("302 Found", "location: /elsewhere\r\n", failed(302, None, "302 Found")),
        ("401 Unauthorized", "retry-after: 5\r\n", failed(401, None, "401 Unauthorized")),
        ("429 Too Many Requests", "retry-after: 7\r\n", failed(429, Some(7), "429 Too Many Requests")),
        ("429 Too Many Requests", "retry-after: -7\r\n", failed(429, None, "429 Too Many Requests")),
        ("500 Internal Server Error", "retry-after: 7\r\n", failed(500, None, "500 Internal Server Error")),
        ("503 Service Unavailable", "retry-after: 120\r\n", failed(503, Some(120), "503 Service Unavailable")),
        (
            "503 Service Unavailable",
            "retry-after: Fri, 31 Dec 2999 23:59:59 GMT\r\n",
            failed(503, None, "503 Service Unavailable"),
        ),
    ] {
        let (client, _head) = serve(answer(status, headers, ""), Then::Close).await;
        assert_eq!(client.profile("u1").await, Err(expected), "{status} {headers}");
    }
}

#[tokio::test]
async fn an_answer_that_is_late_or_cut_has_failed() {
    for late in [String::new(), "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"data\":".to_owned()] {
        let (client, _head) = serve(late, Then::Wait).await;
        assert_eq!(why(impatient(client).wallets("u1").await.unwrap_err()), "no whole answer within 100 ms");
    }
    for cut in [String::new(), "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"data\":".to_owned()] {
        let (client, _head) = serve(cut, Then::Close).await;
        let why = why(client.wallets("u1").await.unwrap_err());
        assert!(!why.is_empty() && why.len() <= 200 && !why.contains("data") && !why.contains("u1"), "{why}");
    }
    let (client, _head) = serve("no HTTP\r\n\r\n", Then::Close).await;
    assert!(!why(client.token("base", "0xa").await.unwrap_err()).is_empty());
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = client_of_nobody(away.local_addr().unwrap().port());
    drop(away);
    assert!(!why(nobody.profile_by_handle("ana").await.unwrap_err()).is_empty());
}

fn client_of_nobody(port: u16) -> UpstreamClient {
    client(&format!("http://127.0.0.1:{port}")).unwrap()
}

#[tokio::test]
async fn an_answer_that_is_too_long_has_failed() {
    let head = "HTTP/1.1 200 OK\r\n\r\n";
    let body = " ".repeat(256 * 1024);
    let (client, _head) = serve(answer("200 OK", "", &body), Then::Close).await;
    assert_eq!(client.profile("u1").await.unwrap().len(), body.len());
    let (client, _head) = serve(format!("{head}{body}x"), Then::Close).await;
    assert_eq!(why(client.profile("u1").await.unwrap_err()), "the answer is over 256 KiB");
    let body = " ".repeat(32 * 1024 * 1024);
    let (client, _head) = serve(answer("200 OK", "", &body), Then::Close).await;
    assert_eq!(client.theses(ThesisScope::Everything, None, None).await.unwrap().len(), body.len());
    let (client, _head) = serve(format!("{head}{body}x"), Then::Close).await;
    assert_eq!(
        why(client.theses(ThesisScope::Everything, None, None).await.unwrap_err()),
        "the answer is over 32768 KiB"
    );
}

#[tokio::test]
async fn a_feed_is_read_piece_by_piece_to_its_end() {
    let text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n";
    let (client, head) = serve(format!("{text}: hello\n\n"), Then::Close).await;
    let mut feed = client.feed(Some("p 1")).await.unwrap();
    let mut read = Vec::new();
    while let Some(piece) = feed.next().await {
        read.extend(piece.unwrap());
    }
    assert_eq!(read, b": hello\n\n");
    let head = head.await.unwrap();
    assert!(head.starts_with("GET /api/v1/feed?after=p+1 HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("accept: text/event-stream\r\n"), "{head}");
    // A chunked one that is cut ends with a reason.
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n3\r\n: x\r\n";
    let (client, head) = serve(cut, Then::Close).await;
    let mut feed = client.feed(None).await.unwrap();
    assert_eq!(feed.next().await.unwrap().unwrap(), ": x");
    assert!(!feed.next().await.unwrap().unwrap_err().is_empty());
    assert!(head.await.unwrap().starts_with("GET /api/v1/feed HTTP/1.1\r\n"));
}

#[tokio::test]
async fn an_open_feed_may_be_silent_for_longer_than_a_lookup() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let (client, _head) = serve(head, Then::Wait).await;
    let client = UpstreamClient { timeout: Duration::from_millis(500), ..client };
    let mut feed = client.feed(None).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_millis(700), feed.next()).await;
    assert!(silence.is_err(), "it is still open");
}

#[tokio::test]
async fn a_feed_that_is_not_open() {
    let failed = |status: Option<u16>, retry_after_s, why: &str| FeedError::Failed {
        status,
        retry_after_s,
        why: why.to_owned(),
    };
    let lost = |oldest_at_ms| FeedError::PositionLost { oldest_at_ms };
    let no_stream = "the upstream answers with no stream of events";
    for (status, headers, body, after, expected) in [
        ("410 Gone", "", r#"{"oldest_at":"2024-02-29T12:00:00.000Z"}"#, Some("p"), lost(Some(1_709_208_000_000))),
        ("410 Gone", "", r#"{"oldest_at":5}"#, Some("p"), lost(None)),
        ("410 Gone", "", "gone", Some("p"), lost(None)),
        ("410 Gone", "", "{}", None, failed(Some(410), None, "the upstream answers 410 Gone")),
        ("404 Not Found", "", "", None, failed(Some(404), None, "the upstream answers 404 Not Found")),
        (
            "429 Too Many Requests",
            "retry-after: 9\r\n",
            "",
            Some("p"),
            failed(Some(429), Some(9), "the upstream answers 429 Too Many Requests"),
        ),
        ("200 OK", "content-type: application/json\r\n", "{}", None, failed(None, None, no_stream)),
    ] {
        let (client, _head) = serve(answer(status, headers, body), Then::Close).await;
        assert_eq!(client.feed(after).await.unwrap_err(), expected, "{status}");
    }
    let (client, _head) = serve("", Then::Wait).await;
    let late = failed(None, None, "no whole answer within 100 ms");
    assert_eq!(impatient(client).feed(None).await.unwrap_err(), late);
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    for (url, name) in [
        ("ftp://up.example", "SVC_UPSTREAM_URL: "),
        ("mailto:up@example.com", "SVC_UPSTREAM_URL: "),
        ("https://user:pass@up.example", "SVC_UPSTREAM_URL: "),
        ("https://user@up.example", "SVC_UPSTREAM_URL: "),
    ] {
        let said = client(url).unwrap_err();
        assert!(said.starts_with(name) && !said.contains("pass@"), "{said}");
    }
    for token in ["", " \n", "a\nb"] {
        let settings = UpstreamSettings { token: SecretString::from(token), ..settings("https://up.example") };
        let said = UpstreamClient::new(&settings).unwrap_err();
        assert!(said.starts_with("SVC_UPSTREAM_TOKEN: "), "{said}");
    }
    let shown = format!("{:?} {:?}", settings("https://up.example"), client("https://up.example").unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}

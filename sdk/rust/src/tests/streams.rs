//! Streams that break and resume.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};

use super::{Service, answer, first_line, header, ok, refused, sent};
use crate::{Error, ErrorCode, EventStream, StreamContent, StreamEventsParams, StreamGap};

fn event(id: &str) -> String {
    format!(
        r#"{{"object":"event","id":"{id}","type":"later","created_at":"2026-01-31T12:00:00.000Z","livemode":false,
            "data":{{}}}}"#
    )
    .replace('\n', "")
}

fn event_frame(cursor: &str, id: &str) -> String {
    format!("id: {cursor}\nevent: later\ndata: {}\n\n", event(id))
}

const END: &str = "id: end\nevent: stream.end\ndata: {\"object\":\"stream_cursor\",\"cursor\":\"end\"}\n\n";
const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";

/// Reads a stream to its end, and writes each message as one word.
async fn messages_of(stream: &mut EventStream) -> Result<Vec<String>, Error> {
    let mut words = Vec::new();
    while let Some(message) = stream.next_message().await? {
        words.push(match message.content {
            StreamContent::Event(event) => format!("{}>{}", event.id, message.cursor),
            StreamContent::Gap(_) => format!("gap>{}", message.cursor),
        });
    }
    Ok(words)
}

#[tokio::test]
async fn a_stream_resumes_with_its_cursor() {
    let gap = "id: c8\nevent: stream.gap\ndata: {\"first_cursor\":\"c3\",\"last_cursor\":\"c8\",\"skipped\":4,\
               \"path\":\"/v1/events?a=1\"}\n\n";
    let first = "id: c0\nevent: stream.cursor\ndata: {}\nretry: 1234\n\n";
    let service = Service::start(&[
        sent(&format!("{first}{}id: c2\nevent: lat", event_frame("c1", "e1"))),
        sent(": ping\n\nid: c3\nevent: stream.cursor\ndata: {}\n\n"),
        String::new(),
        refused(503, "internal", "SERVICE_UNAVAILABLE", "Retry-After: 3\r\n"),
        sent(&format!("{gap}{}", event_frame("c9", "e9"))),
        sent(&format!("{}{END}", event_frame("c10", "e10"))),
    ])
    .await;
    let mut stream = service.client.stream(&StreamEventsParams::default().token(["RUN"]).from_cursor("old"));
    assert_eq!(messages_of(&mut stream).await.unwrap(), ["e1>c1", "gap>c8", "e9>c9", "e10>c10"]);
    assert_eq!(stream.cursor(), Some("end"));
    let requests = service.requests();
    let cursors: Vec<_> = requests.iter().map(|request| header(request, "last-event-id").unwrap()).collect();
    assert_eq!(cursors, ["old", "c1", "c3", "c3", "c3", "c9"]);
    assert!(requests.iter().all(|request| first_line(request) == "GET /v1/events/stream?token=RUN HTTP/1.1"));
    let pauses = service.pauses();
    assert_eq!(pauses[..2], [Duration::from_millis(1234); 2]);
    assert!(pauses.len() == 5 && pauses[3] >= Duration::from_secs(3), "{pauses:?}");
}

#[tokio::test]
async fn a_stream_ends_without_content() {
    let service = Service::start(&[NO_CONTENT.to_owned()]).await;
    let mut stream = service.client.stream(&StreamEventsParams::default());
    assert!(messages_of(&mut stream).await.unwrap().is_empty());
    assert_eq!(stream.next_message().await.unwrap(), None);
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn a_refusal_ends_a_stream() {
    let revoked = refused(401, "authentication", "API_KEY_REVOKED", "");
    let service = Service::start(&[sent(&event_frame("c1", "e1")), revoked]).await;
    let messages: Vec<_> = service.client.stream(&StreamEventsParams::default()).into_stream().collect().await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].as_ref().unwrap().cursor, "c1");
    assert_eq!(messages[1].as_ref().unwrap_err().code(), Some(&ErrorCode::ApiKeyRevoked));
}

#[tokio::test]
async fn only_an_open_stream_waits_for_long() {
    let busy = refused(503, "internal", "SERVICE_UNAVAILABLE", "Retry-After: 300\r\n");
    let service = Service::start(&[sent(&event_frame("c1", "e1")), busy.clone(), sent(END)]).await;
    let mut stream = service.client.stream(&StreamEventsParams::default());
    assert_eq!(messages_of(&mut stream).await.unwrap(), ["e1>c1"]);
    assert!(service.pauses().last().unwrap() >= &Duration::from_secs(300), "{:?}", service.pauses());
    let service = Service::start(&[busy]).await;
    let mut stream = service.client.stream(&StreamEventsParams::default());
    assert_eq!(messages_of(&mut stream).await.unwrap_err().code(), Some(&ErrorCode::ServiceUnavailable));
    assert!(service.pauses().is_empty());
}

#[tokio::test]
async fn a_stream_that_cannot_be_opened_gives_up() {
    let service = Service::start(&[String::new()]).await;
    let mut stream = service.client.stream(&StreamEventsParams::default());
    assert!(matches!(messages_of(&mut stream).await, Err(Error::Connection(_))));
    assert_eq!(service.requests().len(), 6);
}

#[tokio::test]
async fn silence_breaks_a_connection() {
    let silent = sent(&format!("{}: silent\n", event_frame("c1", "e1")));
    let service = Service::start(&[silent, NO_CONTENT.to_owned()]).await;
    let stream = service.client.stream(&StreamEventsParams::default());
    let mut stream = stream.with_silence(Duration::from_millis(50));
    assert_eq!(messages_of(&mut stream).await.unwrap(), ["e1>c1"]);
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn missed_events_are_those_of_the_gap() {
    let page = |id: &str, next: &str| {
        ok(&format!(r#"{{"data":[{}],"has_more":{},"next_cursor":{next}}}"#, event(id), next != "null"))
    };
    let service = Service::start(&[page("e2", r#""c""#), page("e1", "null"), answer(400, "", "")]).await;
    let gap = |path: &str| -> StreamGap {
        let text = format!(r#"{{"first_cursor":"a","last_cursor":"b","skipped":null,"path":"{path}"}}"#);
        serde_json::from_str(&text).unwrap()
    };
    let events = service.client.missed_events(&gap("/v1/events?token=RUN&created_after=2026-11-23T20:43:33.440Z"));
    let events: Vec<_> = events.try_collect().await.unwrap();
    let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids, ["e2", "e1"]);
    assert!(first_line(&service.requests()[1]).contains("?token=RUN&created_after="));
    for path in ["https://a.example/v1/events", "//a.example/v1/events", ".a.example/v1/events", "/v1/theses"] {
        let outcome = service.client.missed_events(&gap(path)).next().await.unwrap();
        assert!(matches!(outcome, Err(Error::Usage(_))), "{path}");
    }
    assert_eq!(service.requests().len(), 2);
}

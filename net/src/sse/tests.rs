use super::*;

fn event(id: Option<&str>, kind: &str, data: &str) -> StreamItem {
    StreamItem::Event(Event { id: id.map(Into::into), kind: kind.to_owned(), data: data.into() })
}

const MAX_BYTES: usize = 1_000;

fn read(stream: &[u8]) -> Vec<StreamItem> {
    Parser::new(MAX_BYTES).read(stream)
}

const STREAM: &str = "id: a1\nevent: stream.cursor\ndata: {\"cursor\":\"a1\"}\nretry: 1200\n\n\
    : ping\n\n\
    id: a2\nevent: thesis.created\ndata: {\"text\":\"ünï 🚀\"}\n\n\
    data: one\ndata:two\ndata\n\n";

fn items() -> Vec<StreamItem> {
    vec![
        StreamItem::Retry(1_200),
        event(Some("a1"), "stream.cursor", "{\"cursor\":\"a1\"}"),
        event(Some("a2"), "thesis.created", "{\"text\":\"ünï 🚀\"}"),
        event(Some("a2"), "", "one\ntwo\n"),
    ]
}

#[test]
fn lines_may_end_in_each_way_and_pieces_anywhere() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = STREAM.replace('\n', end);
        assert_eq!(read(stream.as_bytes()), items(), "{end:?}");
        for at in 0..=stream.len() {
            let (first, second) = stream.as_bytes().split_at(at);
            let mut parser = Parser::new(MAX_BYTES);
            let mut found = parser.read(first);
            found.extend(parser.read(second));
            assert_eq!(found, items(), "{end:?} {at}");
        }
        let mut parser = Parser::new(MAX_BYTES);
        let found: Vec<StreamItem> = stream.bytes().flat_map(|byte| parser.read(&[byte])).collect();
        assert_eq!(found, items(), "{end:?}");
    }
}

#[test]
fn only_an_empty_line_ends_an_event() {
    assert!(read(b"event: x\ndata: 1\n").is_empty());
    assert!(read(b"event: x\ndata: 1").is_empty());
    // One without data is none, and its type is forgotten; its id counts.
    assert_eq!(read(b"event: x\nid: 7\n\ndata: 1\n\n"), [event(Some("7"), "", "1")]);
    assert_eq!(read(b"data\n\n"), [event(None, "", "")]);
}

#[test]
fn what_is_no_field_is_skipped() {
    assert_eq!(read(b"\xef\xbb\xbfdata: 1\n\n"), [event(None, "", "1")]);
    assert_eq!(read(b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n"), [event(None, "", "1")]);
    assert_eq!(read(b":data: 0\nother: 1\nDATA: 2\n data: 3\ndata:  4: \n\n"), [event(None, "", " 4: ")]);
    assert_eq!(read(b"id: 1\nid: 2\x003\ndata:\n\n"), [event(Some("1"), "", "")]);
    assert_eq!(read(b"id: 1\nid\ndata:\n\n"), [event(Some(""), "", "")]);
    assert_eq!(read(b"retry: 5s\nretry:\nretry: -1\nretry: 99999999999999999999\nretry:7\n"), [StreamItem::Retry(7)]);
}

fn too_long(id: Option<&str>) -> StreamItem {
    StreamItem::TooLong { id: id.map(Into::into) }
}

#[test]
fn an_event_that_is_too_long_is_told_at_its_end_and_the_next_is_whole() {
    let half = format!("data: {}\n", "x".repeat(MAX_BYTES / 2));
    let whole = format!("data: {}\n", "x".repeat(MAX_BYTES));
    let next = "id: 8\ndata: 1\n\n";
    for (stream, id) in [
        (format!("id: 7\n{half}{half}\n{next}"), Some("7")),
        (format!("{half}{half}{half}{half}id: 7\n\n{next}"), Some("7")),
        (format!("id: 7\n{whole}\n{next}"), Some("7")),
        (format!("{whole}data: y\nevent: x\nid: 7\n\n{next}"), Some("7")),
        (format!("{whole}{whole}\n{next}"), None),
        (format!("id: {}\ndata: 1\n\n{next}", "x".repeat(MAX_BYTES)), None),
        (format!(":{}\n\n{next}", "x".repeat(MAX_BYTES)), None),
    ] {
        let expected = [too_long(id), event(Some("8"), "", "1")];
        assert_eq!(read(stream.as_bytes()), expected);
        let mut parser = Parser::new(MAX_BYTES);
        let mut found = Vec::new();
        for byte in stream.bytes() {
            found.extend(parser.read(&[byte]));
            assert!(parser.line.len() + parser.data.as_ref().map_or(0, Vec::len) <= MAX_BYTES);
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn an_event_may_have_the_most_bytes() {
    let data = "x".repeat(MAX_BYTES - "data:".len());
    assert_eq!(read(format!("data:{data}\n\n").as_bytes()), [event(None, "", &data)]);
    assert_eq!(read(format!("data:{data}y\n\n").as_bytes()), [too_long(None)]);
    // One without an end is never told.
    assert!(read("x".repeat(MAX_BYTES * 9).as_bytes()).is_empty());
}

#[test]
fn events_share_a_long_id() {
    let mut parser = Parser::new(MAX_BYTES);
    assert!(parser.read(format!("id: {}\n", "x".repeat(MAX_BYTES / 2)).as_bytes()).is_empty());
    let items = parser.read("data\n\n".repeat(9).as_bytes());
    let id_of = |item: StreamItem| match item {
        StreamItem::Event(Event { id: Some(id), .. }) => id,
        other => panic!("{other:?}"),
    };
    let ids: Vec<Arc<str>> = items.into_iter().map(id_of).collect();
    assert_eq!(ids.len(), 9);
    assert!(ids.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1])));
}

use super::*;

fn event(id: Option<&str>, kind: &str, data: &str) -> Told {
    Told::Event(Event { id: id.map(str::to_owned), kind: kind.to_owned(), data: data.into() })
}

fn read(stream: &[u8]) -> Vec<Told> {
    Parser::default().read(stream).unwrap()
}

const STREAM: &str = "id: a1\nevent: stream.cursor\ndata: {\"cursor\":\"a1\"}\nretry: 1200\n\n\
    : ping\n\n\
    id: a2\nevent: thesis.created\ndata: {\"text\":\"ünï 🚀\"}\n\n\
    data: one\ndata:two\ndata\n\n";

fn told() -> Vec<Told> {
    vec![
        Told::Retry(1_200),
        event(Some("a1"), "stream.cursor", "{\"cursor\":\"a1\"}"),
        event(Some("a2"), "thesis.created", "{\"text\":\"ünï 🚀\"}"),
        event(Some("a2"), "", "one\ntwo\n"),
    ]
}

#[test]
fn lines_may_end_in_each_way_and_pieces_anywhere() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = STREAM.replace('\n', end);
        assert_eq!(read(stream.as_bytes()), told(), "{end:?}");
        for at in 0..=stream.len() {
            let (first, second) = stream.as_bytes().split_at(at);
            let mut parser = Parser::default();
            let mut found = parser.read(first).unwrap();
            found.extend(parser.read(second).unwrap());
            assert_eq!(found, told(), "{end:?} {at}");
        }
        let mut parser = Parser::default();
        let found: Vec<Told> = stream.bytes().flat_map(|byte| parser.read(&[byte]).unwrap()).collect();
        assert_eq!(found, told(), "{end:?}");
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
    assert_eq!(read(b"retry: 5s\nretry:\nretry: -1\nretry: 99999999999999999999\nretry:7\n"), [Told::Retry(7)]);
}

#[test]
fn an_event_without_an_end_is_given_up() {
    let mut parser = Parser::default();
    let line = format!("data: {}\n", "x".repeat(MOST / 2));
    assert_eq!(parser.read(line.as_bytes()), Ok(Vec::new()));
    assert_eq!(parser.read(line.as_bytes()), Err(TooLong));
    assert_eq!(Parser::default().read("x".repeat(MOST + 1).as_bytes()), Err(TooLong));
}

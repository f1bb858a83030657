//! Real requests, responses and events for the page: recorded examples as their files write them.

use crate::docs::highlight;

const VERIFY_THESIS: &str = include_str!("../../examples/verifyThesis.json");
const THESIS_CREATED: &str = include_str!("../../examples/event_thesis.created.json");
const STREAM: &str = include_str!("../../examples/streamEvents.txt");

/// The placeholders of times, with times that fit the other examples.
const TIMES: [(&str, &str); 3] = [
    ("{{five_days_ago}}", "2026-11-18T00:00:00.000Z"),
    ("{{yesterday}}", "2026-11-22T00:00:00.000Z"),
    ("{{today}}", "2026-11-23T00:00:00.000Z"),
];
/// Number of characters after which a line of a stream is cut.
const MAX_LINE: usize = 220;

/// Texts of the examples.
pub(super) struct Examples {
    pub(super) public_url: String,
    /// Body of the request that verifies a thesis, as HTML.
    pub(super) question: String,
    /// Body of its response, as HTML.
    pub(super) answer: String,
    /// Frames of a stream: its first cursor, an event and a ping.
    pub(super) stream: String,
    /// Id of the event that the webhook sends.
    pub(super) event_id: String,
    /// Body of the webhook's delivery, as HTML.
    pub(super) delivery: String,
}

impl Examples {
    pub(super) fn new(public_url: &str) -> Self {
        let verify = TIMES.iter().fold(VERIFY_THESIS.to_owned(), |text, (name, time)| text.replace(name, time));
        let delivery = part(THESIS_CREATED, "response");
        let event_id = delivery.split('"').find(|text| text.starts_with("evt_")).unwrap_or_default().to_owned();
        Self {
            public_url: public_url.to_owned(),
            question: highlight("json", &part(&verify, "request")),
            answer: highlight("json", &part(&verify, "response")),
            stream: stream(),
            event_id,
            delivery: highlight("json", &delivery),
        }
    }
}

/// The object under a name of an example, with its fields in their order.
fn part(example: &str, name: &str) -> String {
    let begin = format!("  \"{name}\": ");
    let mut lines = example.lines().skip_while(|line| !line.starts_with(&begin));
    let mut text = lines.next().and_then(|line| line.strip_prefix(&begin)).unwrap_or_default().to_owned();
    for line in lines {
        text.push('\n');
        text.push_str(line.strip_prefix("  ").unwrap_or(line));
        if line.starts_with("  }") {
            break;
        }
    }
    text.trim_end_matches(',').to_owned()
}

/// The frames of the example but its gap, with long lines cut.
fn stream() -> String {
    let frames = STREAM.split("\n\n").filter(|frame| !frame.contains("event: stream.gap"));
    let frames: Vec<String> = frames.map(|frame| frame.lines().map(cut).collect::<Vec<_>>().join("\n")).collect();
    frames.join("\n\n").trim_end().to_owned()
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

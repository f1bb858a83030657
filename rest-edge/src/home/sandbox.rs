//! The newest events of the sandbox as rows of HTML. All visitors share one read, at most one a second, so their number
//! does not burden core.

use std::sync::Arc;

use askama::Template;
use rest_edge_console::event_line;
use thesis_net::services::{Services, Trusted};
use thesis_proto::{
    names::event_type_name,
    time::{format_millis, to_millis},
    v1,
};
use tokio::{
    sync::Mutex,
    time::{Duration, Instant, timeout},
};

/// Number of rows.
const ROWS: u32 = 12;
/// Time for which visitors get the same rows.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of the read: a page with older events is better than a late one.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Template)]
#[template(path = "home_events.html")]
struct Rows {
    rows: Vec<Row>,
}

struct Row {
    id: String,
    /// The time of the event in ISO 8601.
    created_at: String,
    kind: &'static str,
    line: String,
}

impl Row {
    fn new(event: &v1::Event) -> Self {
        Self {
            id: event.id.clone(),
            created_at: format_millis(event.created_at.as_ref().map(to_millis).unwrap_or_default()),
            kind: event_type_name(event.r#type()),
            line: event_line(event),
        }
    }

    /// The hours, minutes and seconds.
    fn clock_time(&self) -> &str {
        self.created_at.get(11..19).unwrap_or_default()
    }
}

#[derive(Default)]
pub(super) struct SandboxEvents {
    /// The time of the last read, and the rows. Concurrent visitors wait for the one that reads.
    newest: Mutex<Option<(Instant, Arc<str>)>>,
}

impl SandboxEvents {
    pub(super) async fn rows(&self, core: &Services) -> Arc<str> {
        let mut newest = self.newest.lock().await;
        if let Some((read_at, rows)) = &*newest
            && read_at.elapsed() < REFRESH_INTERVAL
        {
            return Arc::clone(rows);
        }
        let request = Trusted::request(v1::ReadSandboxRequest { limit: ROWS });
        let rows = match timeout(READ_TIMEOUT, core.streams.read_sandbox(request)).await {
            Ok(Ok(response)) => rows_of(&response.into_inner().events),
            // The last rows stay until core responds again.
            Ok(Err(_)) | Err(_) => newest.take().map_or_else(|| rows_of(&[]), |(_, rows)| rows),
        };
        *newest = Some((Instant::now(), Arc::clone(&rows)));
        rows
    }
}

pub(super) fn rows_of(events: &[v1::Event]) -> Arc<str> {
    Rows { rows: events.iter().map(Row::new).collect() }.render().expect("texts always render").into()
}

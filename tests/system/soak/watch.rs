//! A customer at a stream, who resumes it after each end.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::harness::{Client, Sse, eventually, text};

const QUERY: &str = "?types=thesis.created";
/// Longer than the pause between two signs of life.
const SILENCE: Duration = Duration::from_secs(20);
/// The pause before a stream is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// The events seen, and how often the stream was opened.
#[derive(Default)]
struct Seen {
    events: Vec<String>,
    openings: usize,
}

/// A customer at a stream.
pub(super) struct Watch {
    seen: Arc<Mutex<Seen>>,
    watching: JoinHandle<()>,
}

impl Watch {
    /// Opens a stream; the next event must come first.
    pub(super) async fn start(client: &Client) -> Self {
        let (client, stream, seen) = (client.clone(), client.stream(QUERY).await, Arc::<Mutex<Seen>>::default());
        let watching = tokio::spawn(watch(client, stream, Arc::clone(&seen)));
        Self { seen, watching }
    }

    /// Waits for the first event: before it the stream has no cursor to resume from.
    pub(super) async fn first(&self) {
        eventually("the first event", SILENCE, async || (!self.seen.lock().unwrap().events.is_empty()).then_some(()))
            .await;
    }

    /// Demands that exactly these events came, in order.
    pub(super) async fn saw(self, events: &[String], within: Duration) {
        let all = async || (self.seen.lock().unwrap().events.len() >= events.len()).then_some(());
        eventually("every event on the stream", within, all).await;
        self.watching.abort();
        let seen = self.seen.lock().unwrap();
        assert!(seen.events == events, "the stream's {} events are not the {}", seen.events.len(), events.len());
        println!("a stream saw all {} events once and in order, opened {} times", events.len(), seen.openings);
    }
}

async fn watch(client: Client, first: Sse, seen: Arc<Mutex<Seen>>) {
    let (mut stream, mut cursor) = (Some(first), None);
    loop {
        if let Some(open) = &mut stream {
            seen.lock().unwrap().openings += 1;
            while let Ok(Some(frame)) = timeout(SILENCE, open.read()).await {
                assert_eq!(frame.event, "thesis.created");
                seen.lock().unwrap().events.push(text(&frame.data, "id").to_owned());
                cursor = frame.id;
            }
        }
        sleep(PAUSE).await;
        let cursor = cursor.as_deref().expect("the first stream held until its first event");
        stream = client.try_resume(QUERY, cursor).await;
    }
}

//! Follows events about a token and resumes after breaks, also after a restart: it stores its cursor in `cursor.txt`.
//!
//! `API_URL=https://… API_KEY=svc_test_… cargo run --example follow`

use std::{env, error::Error, fs};

use futures::TryStreamExt as _;
use trade_thesis_client::{Client, Event, EventData, StreamContent, StreamEventsParams};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let mut params = StreamEventsParams::default().token(["RUN"]);
    // There is no file before the first event.
    if let Ok(cursor) = fs::read_to_string("cursor.txt") {
        params = params.from_cursor(cursor);
    }
    let mut stream = client.stream(&params);
    while let Some(message) = stream.next_message().await? {
        match message.content {
            StreamContent::Event(event) => handle(&event),
            StreamContent::Gap(gap) => {
                let mut missed = client.missed_events(&gap);
                while let Some(event) = missed.try_next().await? {
                    handle(&event);
                }
            }
        }
        // The cursor is written to a second file, which then replaces the first: so the first is always complete.
        fs::write("cursor.new", message.cursor)?;
        fs::rename("cursor.new", "cursor.txt")?;
    }
    Ok(())
}

fn handle(event: &Event) {
    match &event.data {
        EventData::ThesisCreated(thesis) => println!("{} {} {}", event.id, thesis.profile.handle, thesis.text),
        _ => println!("{} {}", event.id, event.r#type),
    }
}

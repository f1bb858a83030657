use std::{env, error::Error, fs};

use futures::TryStreamExt as _;
use trade_thesis_client::{Client, StreamContent, StreamEventsParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let mut params = StreamEventsParams::default().token(["RUN"]);
    // There is no file before the first event.
    if let Ok(cursor) = fs::read_to_string("cursor.txt") {
        params = params.from_cursor(cursor.trim());
    }
    let mut stream = client.stream(&params);
    while let Some(message) = stream.next_message().await? {
        match message.content {
            StreamContent::Event(event) => println!("{}", event.id), // handle the event here
            StreamContent::Gap(gap) => {
                let mut missed = client.missed_events(&gap);
                while let Some(event) = missed.try_next().await? {
                    println!("missed: {}", event.id);
                }
            }
        }
        fs::write("cursor.new", message.cursor)?;
        fs::rename("cursor.new", "cursor.txt")?;
    }
    Ok(())
}

use std::{env, error::Error};

use trade_thesis_client::{Client, EventData, EventType, StreamContent, StreamEventsParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let params = StreamEventsParams::default().types([EventType::ThesisCreated]).token(["RUN"]);
    let mut stream = client.stream(&params);
    while let Some(message) = stream.next_message().await? {
        let StreamContent::Event(event) = message.content else { continue };
        if let EventData::ThesisCreated(thesis) = &event.data {
            println!("{} {} {}", event.id, thesis.profile.handle, thesis.text);
        }
    }
    Ok(())
}

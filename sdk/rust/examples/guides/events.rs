use std::{env, error::Error};

use trade_thesis_client::{Client, EventData, EventType, ListEventsParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let params = ListEventsParams::default()
        .types([EventType::ThesisCreated])
        .token(["RUN", "SEEK"])
        .handle(["sbx_runner"])
        .limit(5);
    for event in client.list_events(&params).await?.data {
        if let EventData::ThesisCreated(thesis) = &event.data {
            println!("{} {} {}", event.created_at, thesis.token.symbol, thesis.text);
        }
    }
    Ok(())
}

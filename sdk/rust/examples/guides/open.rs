use std::{env, error::Error};

use trade_thesis_client::{Client, StreamContent, StreamEventsParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let mut stream = client.stream(&StreamEventsParams::default().token(["RUN"]));
    while let Some(message) = stream.next_message().await? {
        if let StreamContent::Event(event) = message.content {
            println!("{} {}", event.r#type, event.id);
        }
    }
    Ok(())
}

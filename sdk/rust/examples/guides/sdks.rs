use std::{env, error::Error};

use futures::TryStreamExt as _;
use trade_thesis_client::{Client, ErrorCode, ListThesesParams, StreamContent, StreamEventsParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let mut theses = client.iterate_theses(&ListThesesParams::default().token("RUN").since("24h"));
    while let Some(thesis) = theses.try_next().await? {
        println!("{} {} {}", thesis.created_at, thesis.profile.handle, thesis.text);
    }
    if let Err(error) = client.get_token("NOSUCHTOKEN", &Default::default()).await {
        println!("{} {:?}", error.code() == Some(&ErrorCode::TokenNotFound), error.request_id());
    }
    let mut stream = client.stream(&StreamEventsParams::default().token(["RUN"]));
    while let Some(message) = stream.next_message().await? {
        match message.content {
            StreamContent::Event(event) => println!("{} {}", event.r#type, event.id),
            StreamContent::Gap(gap) => {
                let mut missed = client.missed_events(&gap);
                while let Some(event) = missed.try_next().await? {
                    println!("missed: {} {}", event.r#type, event.id);
                }
            }
        }
        // Store message.cursor here.
    }
    Ok(())
}

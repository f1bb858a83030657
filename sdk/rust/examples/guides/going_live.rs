use std::{env, error::Error, time::Duration};

use trade_thesis_client::{Client, CreateTestThesis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::builder(&env::var("API_URL")?, &env::var("API_KEY")?)
        .timeout(Duration::from_secs(15))
        .max_retries(5)
        .user_agent("bot/1.2")
        .build()?;
    let thesis = CreateTestThesis::new("@me", "$DEMO", "Posted once, however often it is sent.");
    match client.create_test_thesis(&thesis).idempotency_key("order-1042").await {
        Ok(created) => println!("{}", created.thesis.id),
        Err(error) => {
            eprintln!("failed: {:?} {:?}", error.code(), error.request_id());
            return Err(error.into());
        }
    }
    Ok(())
}

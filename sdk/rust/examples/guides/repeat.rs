use std::{env, error::Error};

use trade_thesis_client::{Client, CreateTestThesis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let thesis = CreateTestThesis::new("ann", "DEMO", "Sent twice, done once.");
    let first = client.create_test_thesis(&thesis).idempotency_key("order-2077").await?;
    let again = client.create_test_thesis(&thesis).idempotency_key("order-2077").await?;
    println!("one thesis: {}", first.thesis.id == again.thesis.id);
    Ok(())
}

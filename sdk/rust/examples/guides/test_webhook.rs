use std::{env, error::Error};

use trade_thesis_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let delivery = client.test_webhook(&env::var("WEBHOOK_ID")?).await?;
    println!("{}", delivery.id);
    Ok(())
}

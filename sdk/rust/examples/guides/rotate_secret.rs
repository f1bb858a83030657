use std::{env, error::Error};

use trade_thesis_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    println!("{}", client.rotate_webhook_secret(&env::var("WEBHOOK_ID")?).await?.secret);
    Ok(())
}

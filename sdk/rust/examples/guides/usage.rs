use std::{env, error::Error};

use trade_thesis_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let usage = client.get_usage().await?;
    println!("{} requests left until {}", usage.month.remaining, usage.month.end);
    println!("{} of class standard left in this minute", usage.rates.standard.remaining);
    Ok(())
}

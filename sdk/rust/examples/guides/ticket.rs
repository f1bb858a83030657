use std::{env, error::Error};

use trade_thesis_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    println!("{}", client.create_stream_ticket().await?.ticket);
    Ok(())
}

use std::{env, error::Error};

use trade_thesis_client::{AlertMetric, Client, CreateAlert};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let alert = CreateAlert::new("Race is busy", "$RACE", AlertMetric::ThesisCount1h).above(20.0).recover(12.0);
    let alert = client.create_alert(&alert).await?;
    println!("{} {}", alert.id, alert.state);
    Ok(())
}

use std::{env, error::Error};

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use trade_thesis_client::{Client, GetTokenActivityParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let as_of = Timestamp::now().round(TimestampRound::new().smallest(Unit::Hour).mode(RoundMode::Trunc))?;
    let params = GetTokenActivityParams::default().as_of(as_of);
    let activity = client.get_token_activity("RUN", &params).await?;
    println!("{} {} {}", activity.computed_at, activity.thesis_count_24h, activity.unique_authors_24h);
    Ok(())
}

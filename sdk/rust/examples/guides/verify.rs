use std::{env, error::Error};

use jiff::{Timestamp, tz::TimeZone};
use trade_thesis_client::{Client, VerifyThesis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let midnight = Timestamp::now().to_zoned(TimeZone::UTC).start_of_day()?.timestamp();
    let claim = VerifyThesis::new("$RUN", midnight).handle("@me").contains("goes up");
    let verdict = client.verify_thesis(&claim).await?;
    println!("{} {}", verdict.verified, verdict.reason);
    Ok(())
}

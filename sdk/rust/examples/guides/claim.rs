use std::{env, error::Error};

use jiff::{SignedDuration, Timestamp};
use trade_thesis_client::{Client, CreateTestThesis, VerifyThesis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let start = Timestamp::now() - SignedDuration::from_hours(1);
    let thesis = CreateTestThesis::new("ann", "DEMO", "Glass demand is back, so I hold $DEMO.");
    client.create_test_thesis(&thesis).await?;

    let claim = VerifyThesis::new("$DEMO", start).handle("@ann").contains("glass demand");
    let verdict = client.verify_thesis(&claim).await?;
    if !verdict.verified {
        return Err(verdict.reason.to_string().into());
    }
    println!("{} {:?} {:?}", verdict.reason, verdict.thesis_id, verdict.created_at);
    Ok(())
}

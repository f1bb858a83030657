//! Posts a test thesis and verifies it: `API_URL=https://… API_KEY=svc_test_… cargo run --example quick_start`

use std::{env, error::Error};

use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use trade_thesis_client::{Client, CreateTestThesis, ListThesesParams, VerifyThesis};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let begin = Timestamp::now() - SignedDuration::from_secs(60);
    client.create_test_thesis(&CreateTestThesis::new("@me", "$RUN", "My first thesis: $RUN goes up.")).await?;
    let verdict = client.verify_thesis(&VerifyThesis::new("$RUN", begin).handle("@me")).await?;
    println!("{} {}", verdict.verified, verdict.reason);
    let mut theses = client.iterate_theses(&ListThesesParams::default().token("RUN").since("1d"));
    while let Some(thesis) = theses.try_next().await? {
        println!("{} {} {}", thesis.created_at, thesis.profile.handle, thesis.text);
    }
    Ok(())
}

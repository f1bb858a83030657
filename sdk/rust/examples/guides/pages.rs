use std::{env, error::Error};

use futures::TryStreamExt as _;
use trade_thesis_client::{Client, ListThesesParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let mut theses = client.iterate_theses(&ListThesesParams::default().token("RUN").since("7d"));
    while let Some(thesis) = theses.try_next().await? {
        println!("{} {} {}", thesis.created_at, thesis.profile.handle, thesis.id);
    }
    Ok(())
}

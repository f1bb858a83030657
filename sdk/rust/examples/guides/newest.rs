use std::{env, error::Error};

use trade_thesis_client::{Client, ListThesesParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    for thesis in client.list_theses(&ListThesesParams::default().token("RUN").limit(1)).await?.data {
        println!("{} {} {}", thesis.created_at, thesis.profile.handle, thesis.text);
    }
    Ok(())
}

use std::{env, error::Error};

use trade_thesis_client::{Client, CreateTestThesis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let thesis = CreateTestThesis::new("@me", "$RUN", "My first thesis: $RUN goes up.");
    println!("{}", client.create_test_thesis(&thesis).await?.thesis.id);
    Ok(())
}

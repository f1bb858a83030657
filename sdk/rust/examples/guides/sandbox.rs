use std::{env, error::Error};

use trade_thesis_client::{Client, CreateTestThesis, ListThesesParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let thesis = CreateTestThesis::new("@alice", "$DEMO", "Only my project sees this.");
    let created = client.create_test_thesis(&thesis).await?;
    let found = client.list_theses(&ListThesesParams::default().handle("alice").token("DEMO").limit(1)).await?;
    println!("{} {}", created.event.id, found.data[0].text);
    Ok(())
}

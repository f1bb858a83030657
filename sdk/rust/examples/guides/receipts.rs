use std::{env, error::Error, fs};

use trade_thesis_client::{Client, ListThesesParams, Subject, verify_receipt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let theses = client.list_theses(&ListThesesParams::default().limit(100)).await?.data;
    let thesis = theses.last().ok_or("there is no thesis yet")?;
    let receipt = serde_json::to_vec(&client.get_receipt(&thesis.id).await?)?;
    fs::write("receipt.json", &receipt)?;

    let keys = client.list_log_keys().await?.data; // store them once
    let trusted: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    let verified = verify_receipt(&receipt, &trusted, &[])?;
    if let Subject::Recorded(evidence) = &verified.subject {
        println!("{} {} {:?}", verified.is_trusted, evidence.recorded_at, evidence.text);
    }
    Ok(())
}

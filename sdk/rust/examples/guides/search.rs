use std::{env, error::Error};

use trade_thesis_client::{Client, SearchParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let params = SearchParams::default().types(["theses"]).limit(3);
    for thesis in client.search("seller* OR buyer* -craft", &params).await?.theses {
        println!("{} {}", thesis.token.symbol, thesis.text);
    }
    Ok(())
}

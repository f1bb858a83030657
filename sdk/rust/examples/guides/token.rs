use std::{env, error::Error};

use trade_thesis_client::{Client, GetTokenParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    match client.get_token("$RUN", &GetTokenParams::default().chain("sandbox")).await {
        Ok(token) => println!("{}", token.id),
        Err(error) => {
            let candidates = error.api().and_then(|refusal| refusal.details.as_ref()?.candidates.as_ref());
            for token in candidates.into_iter().flatten() {
                println!("{} {} {} {}", token.id, token.symbol, token.chain, token.address);
            }
            return Err(error.into());
        }
    }
    Ok(())
}

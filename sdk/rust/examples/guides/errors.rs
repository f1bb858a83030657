use std::{env, error::Error};

use trade_thesis_client::{Client, ErrorCode};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    match client.get_thesis("th_unknown").await {
        Ok(thesis) => println!("{}", thesis.text),
        Err(error) if error.code() == Some(&ErrorCode::ThesisNotFound) => println!("there is no such thesis"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

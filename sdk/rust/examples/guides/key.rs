use std::{env, error::Error};

use trade_thesis_client::{Client, Environment};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let key = client.get_me().await?;
    if key.environment != Environment::Test {
        return Err(format!("{}… is a {} key", key.prefix, key.environment).into());
    }
    for scope in ["theses:read", "streams:read"] {
        if !key.scopes.contains(&scope.to_owned()) {
            return Err(format!("{}… lacks the scope {scope}", key.prefix).into());
        }
    }
    let expires_at = key.expires_at.map_or("never".to_owned(), |time| time.to_string());
    println!("{} of project {}, expires: {expires_at}", key.name, key.project.name);
    Ok(())
}

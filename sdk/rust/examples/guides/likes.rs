use std::{env, error::Error};

use trade_thesis_client::{Client, ListThesesParams, ThesisSort};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let params = ListThesesParams::default().token("RUN").chain("sandbox").since("24h");
    let params = params.sort(ThesisSort::LikesDesc).limit(5);
    for thesis in client.list_theses(&params).await?.data {
        println!("{} {:?} {}", thesis.created_at, thesis.likes, thesis.profile.handle);
    }
    Ok(())
}

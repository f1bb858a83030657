use std::{env, error::Error};

use futures::TryStreamExt as _;
use trade_thesis_client::{Client, ListWebhooksParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let url = env::var("WEBHOOK_URL")?;
    let mut webhooks = client.iterate_webhooks(&ListWebhooksParams::default());
    while let Some(webhook) = webhooks.try_next().await? {
        if webhook.url == url {
            client.delete_webhook(&webhook.id).await?;
            println!("deleted: {}", webhook.id);
        }
    }
    Ok(())
}

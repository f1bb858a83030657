use std::{env, error::Error};

use trade_thesis_client::{Client, CreateWebhook, EventType, WebhookFilters};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let filters = WebhookFilters::default().token(["$RUN"]);
    let webhook = CreateWebhook::new(env::var("WEBHOOK_URL")?, [EventType::ThesisCreated]).filters(filters);
    let webhook = client.create_webhook(&webhook).await?;
    println!("{} {}", webhook.id, webhook.secret);
    Ok(())
}

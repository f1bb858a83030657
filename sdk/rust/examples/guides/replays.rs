use std::{env, error::Error};

use futures::TryStreamExt as _;
use trade_thesis_client::{Client, DeliveryStatus, ListDeliveriesParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let failed = ListDeliveriesParams::default().status(DeliveryStatus::Failed);
    let mut deliveries = client.iterate_deliveries(&env::var("WEBHOOK_ID")?, &failed);
    while let Some(delivery) = deliveries.try_next().await? {
        println!("{} again as {}", delivery.id, client.replay_delivery(&delivery.id).await?.id);
    }
    Ok(())
}

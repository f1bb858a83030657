use std::{env, error::Error};

use trade_thesis_client::{Client, DeliveryStatus, ListDeliveriesParams};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new(&env::var("API_URL")?, &env::var("API_KEY")?)?;
    let params = ListDeliveriesParams::default().status(DeliveryStatus::Retrying).limit(10);
    for delivery in client.list_deliveries(&env::var("WEBHOOK_ID")?, &params).await?.data {
        println!("{} {} {:?}", delivery.id, delivery.attempt, delivery.response_status);
    }
    Ok(())
}

// cargo add standardwebhooks http serde_json
use standardwebhooks::Webhook;

fn handle(body: &[u8], headers: &http::HeaderMap) -> Result<(), Box<dyn std::error::Error>> {
    let webhook = Webhook::new(&std::env::var("WEBHOOK_SECRET")?)?;
    // Fails if no signature is right, or the delivery is old.
    webhook.verify(body, headers)?;
    let event: serde_json::Value = serde_json::from_slice(body)?;
    println!("{} {}", event["id"], event["type"]);
    Ok(())
}

use std::{collections::HashSet, env, error::Error};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use tokio::{net::TcpListener, sync::mpsc};
use trade_thesis_client::{Event, WebhookVerifier};

async fn receive(
    State((verifier, events)): State<(WebhookVerifier, mpsc::Sender<Event>)>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let event = match verifier.verify(&headers, &body) {
        Ok(event) => event,
        Err(error) => {
            eprintln!("refused: {error}");
            return StatusCode::BAD_REQUEST;
        }
    };
    if events.send(event).await.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn work(mut events: mpsc::Receiver<Event>) {
    let mut seen = HashSet::new(); // in a real program: a unique column in your database
    while let Some(event) = events.recv().await {
        if seen.insert(event.id.clone()) {
            println!("{} {}", event.r#type, event.id);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let verifier = WebhookVerifier::new([env::var("WEBHOOK_SECRET")?])?;
    let (sender, events) = mpsc::channel(1000);
    tokio::spawn(work(events));
    let endpoint =
        Router::new().route("/", post(receive)).layer(DefaultBodyLimit::max(1 << 20)).with_state((verifier, sender));
    let port = env::var("PORT").unwrap_or_else(|_| "8000".to_owned());
    axum::serve(TcpListener::bind(format!("0.0.0.0:{port}")).await?, endpoint).await?;
    Ok(())
}

//! How much later than the feed's frame the stream's frame comes, at a steady rate: this process follows both.

use std::{collections::HashMap, ops::ControlFlow, time::Duration};

use core_service::domain::{dataset::Dataset, id};
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::simulator::Simulator;
use crate::{
    Failure,
    frames::{CREATED, follow, open},
    process::{Service, UPSTREAM_TOKEN, live_key},
};

/// New theses a second.
pub(super) const RATE: u32 = 100;
/// How long they come.
pub(super) const LASTS: Duration = Duration::from_secs(20);
/// How long the last ones are waited for.
const LATE: Duration = Duration::from_secs(5);

/// The lags of theses.
pub(super) struct Lags {
    pub(super) lags: Vec<Duration>,
    /// Theses that the stream never told.
    pub(super) missing: usize,
}

/// When theses came, by their id in the service.
type Arrivals = HashMap<String, Instant>;

/// Measures the lags.
pub(super) async fn run(service: &Service, simulator: &Simulator) -> Result<Lags, Failure> {
    let feed = open(&simulator.feed(), UPSTREAM_TOKEN).await?;
    let url = format!("http://{}/v1/events/stream?types=thesis.created", service.address("http")?);
    let stream = open(&url, &live_key()).await?;
    let until = Instant::now() + LASTS + LATE;
    let told = tokio::spawn(arrivals(feed, until, |thesis| {
        thesis["id"].as_str().map(|upstream_id| id::of_thesis(&Dataset::Live.to_string(), upstream_id))
    }));
    let streamed =
        tokio::spawn(arrivals(stream, until, |event| event["data"]["thesis_id"].as_str().map(str::to_owned)));
    simulator.set_rate(RATE).await?;
    sleep(LASTS).await;
    simulator.set_rate(0).await?;
    let (told, streamed) = (told.await?, streamed.await?);
    let lag = |(id, told): (&String, &Instant)| Some(streamed.get(id)?.saturating_duration_since(*told));
    let lags: Vec<Duration> = told.iter().filter_map(lag).collect();
    if lags.is_empty() {
        return Err("the stream told no thesis of the feed".into());
    }
    let missing = told.len() - lags.len();
    Ok(Lags { lags, missing })
}

/// Notes the first arrival of each new thesis until then.
async fn arrivals(stream: Response, until: Instant, id: fn(&Value) -> Option<String>) -> Arrivals {
    let mut arrived = Arrivals::new();
    let following = follow(stream, |frame| {
        if frame.event == CREATED
            && let Ok(data) = serde_json::from_slice::<Value>(frame.data)
            && let Some(id) = id(&data)
        {
            arrived.entry(id).or_insert(frame.at);
        }
        ControlFlow::Continue(())
    });
    // A stream that ends before then tells fewer theses, which are counted as missing.
    let _ = timeout_at(until, following).await;
    arrived
}

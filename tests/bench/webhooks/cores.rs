//! Deliveries a second of three cores on one cluster beside those of one, and the share of each core.

use std::{path::Path, time::Duration};

use futures::future::try_join_all;
use tokio::time::{Instant, sleep};

use crate::{
    Failure, Options,
    mark::micros,
    process::Service,
    report::{aim, aim_below, number, row},
    store::Setup,
    webhooks::{customer::Customer, receiver::Receiver},
};

const CORES: usize = 3;
/// Endpoints, each of a webhook of its own.
const ENDPOINTS: usize = 1_000;
/// Events of a run. Each goes to all endpoints.
const EVENTS: usize = 20;
/// The token that the events are about.
const TOKEN: &str = "MANY";
/// Shards of webhooks that the cores share.
const SHARDS: f64 = 64.0;
/// Least ratio of the rate of all cores to that of one that we aim at.
const RATIO: f64 = 1.0;
/// Most by which the share of a core may differ from the mean.
const UNEVEN: f64 = 0.2;
/// Time limit for the cores to share the shards, and to count the last reports.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// One run.
struct Run {
    rate: f64,
    /// The deliveries of each core, in parts of the mean.
    shares: Vec<f64>,
}

/// Measures and prints.
pub(super) async fn run(options: &Options, base: &Path) -> Result<(), Failure> {
    let setup = Setup::new(options, options.store, 0, &base.join("cores"))?;
    let measured = measure(&setup).await;
    setup.clear().await?;
    measured
}

async fn measure(setup: &Setup) -> Result<(), Failure> {
    let mut receiver = Receiver::start(ENDPOINTS).await?;
    let mut services = vec![Service::start(setup).await?];
    let customer = Customer::new(&services[0]).await?;
    customer.webhooks(receiver.urls.iter().map(|url| (url.clone(), Some(TOKEN.to_owned())))).await?;
    deliver(&services, &customer, &mut receiver).await?;
    let before = deliver(&services, &customer, &mut receiver).await?;
    for number in 1..CORES {
        let dir = setup.dir.join(format!("core-{number}")).display().to_string();
        services.push(Service::start_with(setup, &[("SVC_DATA_DIR", dir)]).await?);
    }
    // What the new cores do for the first time does not count.
    deliver(&services, &customer, &mut receiver).await?;
    let all = deliver(&services, &customer, &mut receiver).await?;
    for service in services.drain(1..) {
        service.stop().await?;
    }
    let after = deliver(&services, &customer, &mut receiver).await?;
    for service in services {
        service.stop().await?;
    }
    receiver.stop().await?;

    let one = f64::midpoint(before.rate, after.rate);
    let ratio = all.rate / one;
    let (least, most) =
        (all.shares.iter().copied().fold(f64::MAX, f64::min), all.shares.iter().copied().fold(0.0, f64::max));
    println!("\nDeliveries of {EVENTS} events to {} endpoints each; {}", number(ENDPOINTS as f64), setup.kind());
    row(&["", "a second", "of one core", "aim"]);
    row(&["one core, before", &number(before.rate), &format!("{:.2}", before.rate / one)]);
    row(&[&format!("{CORES} cores"), &number(all.rate), &format!("{ratio:.2}"), &aim(ratio, RATIO)]);
    row(&["one core, after", &number(after.rate), &format!("{:.2}", after.rate / one)]);
    row(&["least share of a core", &format!("{least:.2}"), "", &aim(least, 1.0 - UNEVEN)]);
    row(&["largest share of a core", &format!("{most:.2}"), "", &aim_below(most, 1.0 + UNEVEN, "")]);
    Ok(())
}

/// Posts events once the cores share the shards of webhooks, and waits for all their deliveries.
async fn deliver(services: &[Service], customer: &Customer, receiver: &mut Receiver) -> Result<Run, Failure> {
    let least = (SHARDS / services.len() as f64).floor();
    until("the cores do not share the shards", async || {
        Ok(metrics(services, "webhook_shards_owned").await?.iter().all(|owned| *owned >= least))
    })
    .await?;
    receiver.take().await?;
    let delivered = async || metrics(services, "webhook_deliveries_total").await;
    let (before, began) = (delivered().await?, micros());
    customer.post(EVENTS, TOKEN).await?;
    let wanted = (EVENTS * ENDPOINTS) as u64;
    let arrived = receiver.wait(wanted).await?;
    if arrived.count < wanted {
        return Err(format!("only {} of {wanted} deliveries came", arrived.count).into());
    }
    let rate = wanted as f64 / (arrived.last_us.saturating_sub(began) as f64 / 1e6);
    let whole = before.iter().sum::<f64>() + wanted as f64;
    until("reports are missing", async || Ok(delivered().await?.iter().sum::<f64>() >= whole)).await?;
    let mean = wanted as f64 / services.len() as f64;
    let shares = delivered().await?.iter().zip(before).map(|(after, before)| (after - before) / mean).collect();
    Ok(Run { rate, shares })
}

/// A metric of each service.
async fn metrics(services: &[Service], name: &str) -> Result<Vec<f64>, Failure> {
    try_join_all(services.iter().map(|service| service.metric(name))).await
}

/// Waits until something holds.
async fn until(otherwise: &str, holds: impl AsyncFn() -> Result<bool, Failure>) -> Result<(), Failure> {
    let started = Instant::now();
    while !holds().await? {
        if started.elapsed() > SETTLE_TIMEOUT {
            return Err(otherwise.into());
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

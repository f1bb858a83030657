//! Deliveries a second through create, sign, POST and log: to one endpoint, and to 1,000.

use std::path::Path;

use crate::{
    Failure, Options,
    mark::micros,
    process::Service,
    report::{aim, aim_below, number, row},
    store::Setup,
    webhooks::{
        at_rest,
        bare::{Posted, posted},
        customer::Customer,
        receiver::Receiver,
    },
};

const ENDPOINTS: usize = 1_000;
/// Bare posts under way at once: as many as the service has at most, to one endpoint and to many.
const AT_ONCE: [usize; 2] = [64, 256];
/// Bare posts of a run.
const BARE: usize = 40_000;
/// Most processor time of a delivery that we aim at, in microseconds.
const CPU_US: f64 = 200.0;
/// Most requests of a delivery to a cluster that we aim at.
const STORE_REQUESTS: f64 = 2.5;

/// One run.
struct Run {
    /// From the first post until the last delivery, or the last answer where nothing is delivered.
    seconds: f64,
    /// Of the service, until it rests.
    cpu_us: f64,
    /// To the cluster, likewise.
    store_requests: f64,
}

/// Measures and prints the rates.
pub(super) async fn run(options: &Options, base: &Path) -> Result<(), Failure> {
    let setup = Setup::new(options, options.store, 0, &base.join("rates"))?;
    let measured = measure(&setup).await;
    setup.clear().await?;
    measured
}

async fn measure(setup: &Setup) -> Result<(), Failure> {
    let (events, fanned, wanted) = if setup.is_cluster() { (2_000, 5, 5_000.0) } else { (20_000, 60, 8_000.0) };
    let mut receiver = Receiver::start(ENDPOINTS).await?;
    let urls = receiver.urls.clone();
    let one_bare = posted(&urls[..1], BARE, AT_ONCE[0], &setup.dir).await?;
    let many_bare = posted(&urls, BARE, AT_ONCE[1], &setup.dir).await?;

    let service = Service::start(setup).await?;
    let customer = Customer::new(&service).await?;
    // Everything is cold at first.
    customer.post(events / 10, "NOBODY").await?;
    let mut side = Side { service: &service, customer: &customer, receiver: &mut receiver };
    let unwanted = side.run(events, "NOBODY", 0).await?;
    customer.webhooks([(urls[0].clone(), Some("ONE".to_owned()))]).await?;
    let one = side.run(events, "ONE", 1).await?;
    customer.webhooks(urls.iter().map(|url| (url.clone(), Some("MANY".to_owned())))).await?;
    let many = side.run(fanned, "MANY", ENDPOINTS).await?;
    service.stop().await?;
    receiver.stop().await?;

    let (count, all) = (events as f64, (fanned * ENDPOINTS) as f64);
    println!(
        "\nDeliveries of {} events to one endpoint, and of {fanned} events to {} endpoints each; {}",
        number(count),
        number(ENDPOINTS as f64),
        setup.kind()
    );
    row(&["", "a second", "of bare", "CPU µs each", "aim"]);
    row(&["events that no webhook wants", &number(count / unwanted.seconds), "-", &number(unwanted.cpu_us / count)]);
    bare("bare posts to one endpoint", &one_bare);
    let cpu = (one.cpu_us - unwanted.cpu_us) / count;
    let aims = |rate: f64, cpu: f64| {
        let rate = aim(rate, wanted);
        // On a cluster the service has not the machine to itself.
        if setup.is_cluster() { rate } else { format!("{rate}; {}", aim_below(cpu, CPU_US, " µs")) }
    };
    let print = |name: &str, rate: f64, bare: &Posted, cpu: f64| {
        row(&[name, &number(rate), &format!("{:.2}", rate / bare.rate), &number(cpu), &aims(rate, cpu)]);
    };
    print("to one endpoint, while appended", count / one.seconds, &one_bare, cpu);
    bare("bare posts to 1,000 endpoints", &many_bare);
    print("to 1,000 endpoints", all / many.seconds, &many_bare, many.cpu_us / all);
    println!("  The CPU of a delivery to one endpoint is what its event costs more than one that no webhook wants.");
    if setup.is_cluster() {
        let (one, many) = ((one.store_requests - unwanted.store_requests) / count, many.store_requests / all);
        println!("  Store requests of a delivery: {}, {}.", asked(one), asked(many));
    }
    Ok(())
}

fn asked(requests: f64) -> String {
    format!("{requests:.2} ({})", aim_below(requests, STORE_REQUESTS, ""))
}

fn bare(name: &str, posted: &Posted) {
    row(&[name, &number(posted.rate), "1.00", &number(posted.cpu_us)]);
}

/// What a run needs.
struct Side<'a> {
    service: &'a Service,
    customer: &'a Customer,
    receiver: &'a mut Receiver,
}

impl Side<'_> {
    /// Posts events of which each goes to this number of endpoints.
    async fn run(&mut self, events: usize, token: &str, endpoints: usize) -> Result<Run, Failure> {
        self.receiver.take().await?;
        let before = at_rest(self.service).await;
        let requests_before = self.service.store_requests().await?;
        let began = micros();
        self.customer.post(events, token).await?;
        let answered = micros();
        let wanted = (events * endpoints) as u64;
        let arrived = self.receiver.wait(wanted).await?;
        if arrived.count < wanted {
            return Err(format!("only {} of {wanted} deliveries came", arrived.count).into());
        }
        let ended = if endpoints == 0 { answered } else { arrived.last_us };
        let cpu_us = (at_rest(self.service).await - before) * 1e6;
        let store_requests = self.service.store_requests().await? - requests_before;
        Ok(Run { seconds: ended.saturating_sub(began) as f64 / 1e6, cpu_us, store_requests })
    }
}

//! From an event to its arrival at 100 events a second: with sound endpoints, with endpoints that hang or refuse, and
//! beside one dead endpoint to which very many deliveries are due.

use std::{path::Path, time::Duration};

use tokio::{net::TcpSocket, time::sleep};

use crate::{
    Failure, Options, load,
    process::Service,
    report::{aim_below, number, row},
    store::Setup,
    webhooks::{
        customer::Customer,
        receiver::{Arrived, HANGING, Receiver},
    },
};

/// Events a second.
const RATE: u32 = 100;
/// Tokens that the events are about in turn. Each endpoint wants one of them, so an event goes to a tenth of them all.
const TOKENS: usize = 10;
/// Seconds of the first run, which does not count.
const WARM_UP: u32 = 3;
/// Most that a trouble of others may make a delivery slower, as a factor.
const SLOWER: f64 = 1.2;

fn token(index: usize) -> String {
    format!("DELAY{}", index % TOKENS)
}

/// Measures and prints the delays.
pub(super) async fn run(options: &Options, seconds: u32, backlog: u64, base: &Path) -> Result<(), Failure> {
    let setup = Setup::new(options, options.store, 0, &base.join("delays"))?;
    let measured = measure(options, seconds, backlog, &setup).await;
    setup.clear().await?;
    measured
}

async fn measure(options: &Options, seconds: u32, backlog: u64, setup: &Setup) -> Result<(), Failure> {
    // A node gets as many deliveries as it can carry with room to spare.
    let endpoints: usize = if setup.is_cluster() { 20 } else { 100 };
    // These are replaced, the first half by ones that hang, the second by ones that refuse.
    let faulty = endpoints * 2 / 5;
    let receiver = Receiver::start(endpoints).await?;
    let urls = receiver.urls.clone();
    // Bound, but nobody listens: connections are refused.
    let socket = TcpSocket::new_v4()?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let refusing = format!("http://{}/", socket.local_addr()?);
    let hanging = |index: usize| format!("{}{HANGING}", urls[index]);

    let service = Service::start(setup).await?;
    let customer = Customer::new(&service).await?;
    let dead = Customer::first(&service)?;
    let dead_webhook = dead.webhooks([(hanging(0), None)]).await?.remove(0);
    let sound = |index: usize| (urls[index].clone(), Some(token(index)));
    let first = customer.webhooks((0..faulty).map(sound)).await?;
    customer.webhooks((faulty..endpoints).map(sound)).await?;
    println!(
        "\nFrom an event to its arrival, {RATE} events a second, each to {} of {endpoints} endpoints; {}",
        endpoints / TOKENS,
        setup.kind()
    );
    row(&["", "p50 ms", "p99 ms", "of sound", "missing", "aim"]);
    let mut listening = Listening { receiver, seconds, sound_p99: f64::NAN };
    listening.run(&customer, WARM_UP, endpoints).await?;
    let all_sound = listening.run(&customer, seconds, endpoints).await?;
    listening.sound_p99 = all_sound.p99_ms;
    listening.print("all endpoints sound", &all_sound, endpoints);

    customer.delete(&first).await?;
    let wrong = |index: usize| {
        let url = if index < faulty / 2 { hanging(index) } else { refusing.clone() };
        (url, Some(token(index)))
    };
    let troubles = customer.webhooks((0..faulty).map(wrong)).await?;
    for name in ["20 % hang, 20 % refuse, at first", "20 % hang, 20 % refuse, then"] {
        let arrived = listening.run(&customer, seconds, endpoints - faulty).await?;
        listening.print(name, &arrived, endpoints - faulty);
    }
    customer.delete(&troubles).await?;
    customer.webhooks((0..faulty).map(sound)).await?;
    service.stop().await?;

    let took = load::store_pending(options, setup, &dead_webhook, backlog).await?;
    let service = Service::start(setup).await?;
    service.indexed().await?;
    let (customer, dead) = (customer.of(&service)?, dead.of(&service)?);
    for (name, url) in [("beside a dead endpoint that hangs", hanging(0)), ("that refuses", refusing)] {
        dead.redirect(&dead_webhook, &url).await?;
        let arrived = listening.run(&customer, seconds, endpoints).await?;
        listening.print(name, &arrived, endpoints);
    }
    dead.redirect(&dead_webhook, &urls[0]).await?;
    listening.drain(&service).await?;
    println!("  {} deliveries of the dead endpoint were due, written within {took:.0} s.", number(backlog as f64));
    service.stop().await?;
    listening.receiver.stop().await
}

/// The receiving side of all runs.
struct Listening {
    receiver: Receiver,
    seconds: u32,
    sound_p99: f64,
}

impl Listening {
    /// Posts for some seconds; gives what arrived, sooner or later, at this number of endpoints.
    async fn run(&mut self, customer: &Customer, seconds: u32, endpoints: usize) -> Result<Arrived, Failure> {
        self.receiver.take().await?;
        let tokens: Vec<String> = (0..TOKENS).map(token).collect();
        customer.post_at(RATE, seconds, &tokens).await?;
        self.receiver.wait(wanted(seconds, endpoints)).await
    }

    fn print(&self, name: &str, arrived: &Arrived, endpoints: usize) {
        let ratio = arrived.p99_ms / self.sound_p99;
        let missing = wanted(self.seconds, endpoints).saturating_sub(arrived.count);
        row(&[
            name,
            &format!("{:.1}", arrived.p50_ms),
            &format!("{:.1}", arrived.p99_ms),
            &format!("{ratio:.2}"),
            &missing.to_string(),
            &aim_below(ratio, SLOWER, " times"),
        ]);
    }

    /// Prints how fast the endpoint that is sound again gets what waited for it.
    async fn drain(&mut self, service: &Service) -> Result<(), Failure> {
        self.receiver.take().await?;
        let before = service.cpu_seconds();
        sleep(Duration::from_secs(self.seconds.into())).await;
        let cpu_us = (service.cpu_seconds() - before) * 1e6;
        let arrived = self.receiver.take().await?;
        let seconds = arrived.last_us.saturating_sub(arrived.first_us) as f64 / 1e6;
        let count = arrived.count as f64;
        println!(
            "  Sound again, it got {} of them: {} a second, {} µs of CPU each.",
            number(count),
            number(count / seconds),
            number(cpu_us / count)
        );
        Ok(())
    }
}

/// The deliveries of a run.
fn wanted(seconds: u32, endpoints: usize) -> u64 {
    u64::from(RATE * seconds) * endpoints as u64 / TOKENS as u64
}

//! `cargo bench --bench service -- accounts`: sign-ins a second, and reads by id with a key, alone and while sign-ins are
//! tried beside them, in turns. A sign-in costs a hash of a password, which is made to be slow.

mod people;
mod tries;

use self::{people::People, tries::Tries};
use crate::{
    Failure, Options,
    client::Protocol,
    load,
    process::Service,
    report::{aim, median, number, percentile, row},
    rounds::{Beside, Figures, Kind, beside, reads_by_id},
    store::Setup,
};

/// Accounts that are signed in to. None of them reaches its 30 sign-ins an hour.
const ACCOUNTS: usize = 200;
/// Sign-ins under way at once while they are counted.
const AT_ONCE: usize = 8;
/// Sign-ins that are tried a second beside reads.
const TRIED: u32 = 50;
/// Least part of the reads alone that we aim at meanwhile.
const OF_ALONE: f64 = 0.9;

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let setup = Setup::new(options, options.store, options.theses, temporary.path())?;
    let measured = measure(options, &setup).await;
    setup.clear().await?;
    measured
}

async fn measure(options: &Options, setup: &Setup) -> Result<(), Failure> {
    load::run(options, setup).await?;
    let service = Service::start(setup).await?;
    service.indexed().await?;
    let people = People::of(&service).await?;
    people.sign_up(ACCOUNTS).await?;
    let started = service.memory();
    sign_ins(options, setup, &service, &people).await?;
    reads(options, setup, &service, &people).await?;
    println!("  After the accounts were made: {started}. After all of it: {}.", service.memory());
    service.stop().await?;
    Ok(())
}

async fn sign_ins(options: &Options, setup: &Setup, service: &Service, people: &People) -> Result<(), Failure> {
    let (mut rates, mut cpu_ms, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let before = service.cpu_seconds();
        let (seconds, round) = people.sign_in_for(options.seconds, AT_ONCE).await?;
        rates.push(round.len() as f64 / seconds);
        cpu_ms.push((service.cpu_seconds() - before) * 1e3 / round.len().max(1) as f64);
        times.extend(round);
    }
    println!("\nSign-ins, {AT_ONCE} at once, medians of {} runs; {}", options.rounds, setup.kind());
    row(&["", "sign-ins/s", "p50 ms", "p99 ms", "CPU ms"]);
    let [p50, p99] = [0.5, 0.99].map(|part| percentile(&mut times, part));
    row(&["with the right password", &number(median(rates)), &number(p50), &number(p99), &number(median(cpu_ms))]);
    Ok(())
}

async fn reads(options: &Options, setup: &Setup, service: &Service, people: &People) -> Result<(), Failure> {
    let requests = reads_by_id(&setup.dir, setup.theses)?;
    let kind = Kind { service, protocol: Protocol::Http, requests: &requests };
    let tries = Tries::start(people, ACCOUNTS, TRIED);
    let switch = async |on: bool| {
        tries.set(on).await;
        Ok::<(), Failure>(())
    };
    let Beside { without: alone, with: meanwhile, .. } = beside(options, options.connections, &kind, switch).await?;
    println!(
        "\nGET /v1/theses/{{id}}, {} connections, medians of {} runs in turns; {}",
        options.connections,
        options.rounds,
        setup.kind()
    );
    row(&["", "requests/s", "of alone", "p50 ms", "p99 ms", "aim"]);
    print("alone", &alone, &alone, "");
    let ratio = meanwhile.rate / alone.rate;
    print(&format!("while {TRIED} sign-ins/s are tried"), &meanwhile, &alone, &aim(ratio, OF_ALONE));
    println!("  {}", tries.told());
    Ok(())
}

fn print(name: &str, figures: &Figures, alone: &Figures, aim: &str) {
    let ratio = format!("{:.2}", figures.rate / alone.rate);
    row(&[name, &number(figures.rate), &ratio, &number(figures.p50_ms), &number(figures.p99_ms), aim]);
}

//! `cargo bench --bench service -- upstream`: how fast the service takes in what an upstream tells, and how soon its
//! streams tell it. The upstream is the simulator, a process of its own on the same processors; beside it the same texts
//! are appended through a core in this process, as in the loading of the other measurements.

mod burst;
mod lag;
mod simulator;

use self::{burst::Burst, lag::Lags, simulator::Simulator};
use crate::{
    Failure, Options, load,
    process::Service,
    report::{aim, aim_below, number, percentile, row},
    store::Setup,
};

/// Most theses of a burst: the simulator keeps 200,000 frames for a follower that is behind.
const MAX_THESES: u64 = 190_000;
/// Theses a second that we aim at on the embedded store.
const RATE: f64 = 3_000.0;
/// Least part of the appends that we aim at, on the embedded store and on a cluster.
const OF_APPENDS: [f64; 2] = [0.8, 0.9];
/// Longest 99th percentile of the lag that we aim at on the embedded store, in milliseconds.
const LAG_MS: f64 = 25.0;

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    if options.theses > MAX_THESES {
        return Err(format!("--theses is {MAX_THESES} at most").into());
    }
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let setup = |name: &str| Setup::new(options, options.store, options.theses, &temporary.path().join(name));
    let (followed, appended) = (setup("followed")?, setup("appended")?);
    let measured = measure(options, &followed, &appended).await;
    followed.clear().await?;
    appended.clear().await?;
    measured
}

async fn measure(options: &Options, followed: &Setup, appended: &Setup) -> Result<(), Failure> {
    let simulator = Simulator::start(&followed.dir).await?;
    let service = Service::start_with(followed, &simulator.settings()).await?;
    simulator.is_followed().await?;
    let burst = burst::run(&service, &simulator, options.theses).await?;
    let texts = simulator.texts().await?;
    let lags = lag::run(&service, &simulator).await?;
    service.stop().await?;
    simulator.stop().await?;
    let appends = load::rate(options, appended, &texts).await?;
    print_burst(&burst, appends, followed);
    print_lags(lags, followed);
    Ok(())
}

fn print_burst(burst: &Burst, appends: f64, setup: &Setup) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("\nA burst of {} theses through the feed; {}", number(burst.theses), setup.kind());
    row(&["", "theses/s", "of appends", "corrected", "of appends", "aim"]);
    row(&["appends of the same texts", &number(appends), "1.00"]);
    for (name, seconds) in
        [("streamed", burst.streamed_s), ("queryable", burst.queryable_s), ("searchable", burst.searchable_s)]
    {
        let corrected_s = seconds - burst.simulator_cpu_s / processors as f64;
        let [rate, corrected] = [seconds, corrected_s].map(|seconds| burst.theses / seconds);
        let [of_appends, corrected_of_appends] = [rate, corrected].map(|rate| rate / appends);
        let aim = if setup.is_cluster() {
            aim(corrected_of_appends, OF_APPENDS[1])
        } else {
            format!("{}; {} of appends", aim(corrected, RATE), aim(corrected_of_appends, OF_APPENDS[0]))
        };
        row(&[
            name,
            &number(rate),
            &format!("{of_appends:.2}"),
            &number(corrected),
            &format!("{corrected_of_appends:.2}"),
            &aim,
        ]);
    }
    println!(
        "  Corrected: theses / (seconds - the simulator's processor seconds / {processors} processors), for which the \
         aims are."
    );
    row(&["", "CPU µs", "CPU s"]);
    for (name, cpu_s) in [
        ("the service, a thesis", burst.service_cpu_s),
        ("the simulator", burst.simulator_cpu_s),
        ("this client", burst.client_cpu_s),
    ] {
        row(&[name, &number(cpu_s * 1e6 / burst.theses), &number(cpu_s)]);
    }
}

fn print_lags(mut lags: Lags, setup: &Setup) {
    println!(
        "\nFrom the feed's frame to the stream's, {} theses a second for {} s; {}",
        lag::RATE,
        lag::LASTS.as_secs(),
        setup.kind()
    );
    row(&["theses", "missing", "p50 ms", "p99 ms", "aim"]);
    let [p50, p99] = [0.5, 0.99].map(|part| percentile(&mut lags.lags, part));
    let aim = if setup.is_cluster() { String::new() } else { aim_below(p99, LAG_MS, " ms") };
    let (theses, missing) = (lags.lags.len().to_string(), lags.missing.to_string());
    row(&[&theses, &missing, &format!("{p50:.2}"), &format!("{p99:.2}"), &aim]);
}

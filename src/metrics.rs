//! The metrics of a process: the recorder, and metrics of the operating system and the runtime.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use thesis_net::metric::{self, value};
use tokio::{runtime::Handle, time::Instant};

use crate::version::{COMMIT, VERSION};

/// Interval in which histograms are summed up, even if nobody reads them.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Upper bounds of requests and attempts, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of calls of the store, in seconds: the embedded one takes microseconds.
const STORE_BUCKETS: [f64; 14] =
    [0.000_005, 0.000_02, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Upper bounds of the wait for a worker, in seconds: from at once to hours.
const WAIT_BUCKETS: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];

thesis_net::declare_metrics! {
    fn declare;

    BUILD: Gauge = "build_info", &[("version", &[VERSION]), ("commit", &[COMMIT])],
        "Always 1: the version and commit of the program";
    TASKS: Gauge = "tokio_tasks_alive", &[], "Tasks that have begun and not ended";
    QUEUE: Gauge = "tokio_global_queue_depth", &[],
        "Tasks that are ready and wait in the queue that all threads share";
    THREADS: Gauge = "tokio_workers", &[], "Threads that run tasks";
    BUSY: Gauge = "tokio_busy_ratio", &[],
        "The part of the last five seconds in which these threads ran tasks, from 0 to 1";
    PARKS: Counter = "tokio_parks_total", &[], "How often threads found nothing to do";
}

/// Begins to record. Only series that begin later are recorded.
pub(crate) fn record() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("store_call_seconds".to_owned()), &STORE_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("webhook_queue_seconds".to_owned()), &WAIT_BUCKETS)?
        .install_recorder()?;
    declare();
    BUILD.of(&[VERSION, COMMIT]).set(1.0);
    let (process, runtime) = (Collector::default(), Handle::current());
    process.describe();
    metric::add_sampler(move || {
        process.collect();
        sample_runtime(&runtime);
    });
    tokio::spawn(keep_up(handle.clone()));
    Ok(handle)
}

/// All metrics as Prometheus reads them.
pub(crate) fn render(handle: &PrometheusHandle) -> String {
    metric::sample();
    handle.render()
}

/// Sums histograms up, and measures how busy the threads are.
async fn keep_up(handle: PrometheusHandle) {
    let (runtime, mut every) = (Handle::current(), tokio::time::interval(UPKEEP_INTERVAL));
    let (mut busy_before, mut then) = (Duration::ZERO, Instant::now());
    loop {
        every.tick().await;
        handle.run_upkeep();
        let metrics = runtime.metrics();
        let busy =
            (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum::<Duration>();
        let time = then.elapsed().as_secs_f64() * value(metrics.num_workers() as u64);
        if time > 0.0 {
            BUSY.one().set(((busy.saturating_sub(busy_before)).as_secs_f64() / time).min(1.0));
        }
        (busy_before, then) = (busy, Instant::now());
    }
}

fn sample_runtime(runtime: &Handle) {
    let metrics = runtime.metrics();
    TASKS.one().set(value(metrics.num_alive_tasks() as u64));
    QUEUE.one().set(value(metrics.global_queue_depth() as u64));
    THREADS.one().set(value(metrics.num_workers() as u64));
    PARKS.one().absolute((0..metrics.num_workers()).map(|worker| metrics.worker_park_count(worker)).sum());
}

//! Clients in turns: kinds of requests, or services, are asked round by round, since machines are noisy.

use std::{path::Path, process::Stdio};

use tokio::process::Command;

use crate::{
    Failure, Options,
    client::{Outcome, Protocol},
    process::{Service, test_key},
    report::median,
};

/// A service, and the requests to it.
#[derive(Clone, Copy)]
pub(crate) struct Kind<'a> {
    pub(crate) service: &'a Service,
    pub(crate) protocol: Protocol,
    /// The file of requests.
    pub(crate) requests: &'a Path,
}

/// One run of a client.
struct Run {
    outcome: Outcome,
    cpu_us: f64,
}

/// The medians of a kind's runs.
pub(crate) struct Figures {
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) cpu_us: f64,
}

/// Runs the kinds in turns, after a short run of each that does not count.
pub(crate) async fn compare(
    options: &Options,
    connections: usize,
    kinds: &[Kind<'_>],
) -> Result<Vec<Figures>, Failure> {
    let mut runs: Vec<Vec<Run>> = kinds.iter().map(|_| Vec::new()).collect();
    for kind in kinds {
        run(kind, connections, options.seconds.min(0.5)).await?;
    }
    for _ in 0..options.rounds {
        for (kind, runs) in kinds.iter().zip(&mut runs) {
            runs.push(run(kind, connections, options.seconds).await?);
        }
    }
    Ok(runs.iter().map(|runs| medians(runs)).collect())
}

/// Runs one kind in turns without something beside it and with it, which `switch` ends and begins; gives the figures of
/// both.
pub(crate) async fn beside(
    options: &Options,
    connections: usize,
    kind: &Kind<'_>,
    switch: impl AsyncFn(bool),
) -> Result<[Figures; 2], Failure> {
    let mut runs = [Vec::new(), Vec::new()];
    run(kind, connections, options.seconds.min(0.5)).await?;
    for _ in 0..options.rounds {
        for (on, runs) in [false, true].into_iter().zip(&mut runs) {
            switch(on).await;
            runs.push(run(kind, connections, options.seconds).await?);
        }
    }
    switch(false).await;
    Ok(runs.map(|runs| medians(&runs)))
}

fn medians(runs: &[Run]) -> Figures {
    let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    Figures {
        rate: of(|run| run.outcome.requests as f64 / run.outcome.seconds),
        p50_ms: of(|run| run.outcome.p50_ms),
        p99_ms: of(|run| run.outcome.p99_ms),
        cpu_us: of(|run| run.cpu_us),
    }
}

async fn run(kind: &Kind<'_>, connections: usize, seconds: f64) -> Result<Run, Failure> {
    let word = match kind.protocol {
        Protocol::Http => "http",
        Protocol::Grpc => "grpc",
    };
    let before = kind.service.cpu_seconds();
    let output = Command::new(std::env::current_exe()?)
        .args(["client", "--protocol", word, "--key", &test_key()])
        .args(["--address", &kind.service.address(word)?.to_string()])
        .args(["--connections", &connections.to_string(), "--seconds", &seconds.to_string()])
        .arg("--requests")
        .arg(kind.requests)
        .stderr(Stdio::inherit())
        .output()
        .await?;
    if !output.status.success() {
        return Err(format!("a client failed with {}", kind.requests.display()).into());
    }
    let outcome: Outcome = serde_json::from_slice(&output.stdout)?;
    let cpu_us = (kind.service.cpu_seconds() - before) * 1e6 / outcome.requests.max(1) as f64;
    Ok(Run { outcome, cpu_us })
}

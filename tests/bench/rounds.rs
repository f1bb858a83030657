//! Clients in turns: kinds of requests, or services, are asked round by round, since machines are noisy.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use crate::{
    Failure, Options,
    client::{Outcome, Protocol},
    data::{Random, thesis_id},
    process::{Service, test_key},
    report::{median, number, row},
};

/// Number of different theses that are posted.
const POSTS: usize = 1_000;

/// A service, and the requests to it.
#[derive(Clone, Copy)]
pub(crate) struct Kind<'a> {
    pub(crate) service: &'a Service,
    pub(crate) protocol: Protocol,
    /// The file of requests.
    pub(crate) requests: &'a Path,
}

/// Writes the file of requests that read each thesis by id; gives its path.
pub(crate) fn reads_by_id(dir: &Path, theses: u64) -> Result<PathBuf, Failure> {
    let file = dir.join("bench-by-id");
    let paths: Vec<String> = (0..theses).map(|number| format!("/v1/theses/{}", thesis_id(number))).collect();
    std::fs::write(&file, paths.join("\n"))?;
    Ok(file)
}

/// Writes the file of requests that post test theses. Returns its path.
pub(crate) fn posts(dir: &Path) -> Result<PathBuf, Failure> {
    let (file, mut random) = (dir.join("bench-posts"), Random::new(3));
    let line = |number| {
        let (profile, token) = (random.below(10_000), random.below(1_000));
        format!(
            "/v1/test/theses\t{{\"handle\":\"trader_{profile}\",\"token\":\"BENCH{token}\",\"text\":\"saved {number}: \
             holding through the week.\"}}"
        )
    };
    let lines: Vec<String> = (0..POSTS).map(line).collect();
    std::fs::write(&file, lines.join("\n"))?;
    Ok(file)
}

/// One run of a client.
struct Run {
    outcome: Outcome,
    cpu_us: f64,
}

impl Run {
    /// Requests a second.
    fn rate(&self) -> f64 {
        self.outcome.requests as f64 / self.outcome.seconds
    }
}

/// The medians of a kind's runs.
pub(crate) struct Figures {
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) cpu_us: f64,
}

impl Figures {
    /// Prints the heads of rows that are compared with `base`.
    pub(crate) fn heads(base: &str) {
        row(&["", "requests/s", &format!("of {base}"), "p50 ms", "p99 ms", "CPU µs", "aim"]);
    }

    /// Prints them as a row, compared with those of `base`.
    pub(crate) fn print(&self, name: &str, base: &Self, aim: &str) {
        let milliseconds = |time: f64| format!("{time:.2}");
        row(&[
            name,
            &number(self.rate),
            &format!("{:.3}", self.rate / base.rate),
            &milliseconds(self.p50_ms),
            &milliseconds(self.p99_ms),
            &number(self.cpu_us),
            aim,
        ]);
    }
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

/// Figures of one kind without something beside it and with it.
pub(crate) struct Beside {
    pub(crate) without: Figures,
    pub(crate) with: Figures,
    /// The median of the turns' ratios of the rate with it to the rate without it.
    pub(crate) rate_ratio: f64,
}

/// Runs one kind in turns without something beside it and with it, which `switch` ends and begins.
pub(crate) async fn beside(
    options: &Options,
    connections: usize,
    kind: &Kind<'_>,
    switch: impl AsyncFn(bool) -> Result<(), Failure>,
) -> Result<Beside, Failure> {
    let mut runs = [Vec::new(), Vec::new()];
    run(kind, connections, options.seconds.min(0.5)).await?;
    for _ in 0..options.rounds {
        for (on, runs) in [false, true].into_iter().zip(&mut runs) {
            switch(on).await?;
            runs.push(run(kind, connections, options.seconds).await?);
        }
    }
    switch(false).await?;
    let [without, with] = &runs;
    let ratios = without.iter().zip(with).map(|(without, with)| with.rate() / without.rate()).collect();
    Ok(Beside { without: medians(without), with: medians(with), rate_ratio: median(ratios) })
}

fn medians(runs: &[Run]) -> Figures {
    let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    Figures {
        rate: of(Run::rate),
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

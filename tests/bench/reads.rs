//! Reads by id and lists, from the service and from the bare handler in turns.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::{
    Failure, Options, bare,
    client::{Outcome, Protocol},
    connection::{Connection, get},
    load::PATHS,
    process::{Process, Service, test_key},
    report::{aim, median, number, row},
};

const LIST: &str = "/v1/theses?limit=25";

/// One run of a client.
#[derive(Clone, Copy)]
struct Run {
    outcome: Outcome,
    cpu_us: f64,
}

/// The medians of a kind of run.
struct Figures {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: f64,
}

struct Reader<'a> {
    options: &'a Options,
    paths: PathBuf,
}

impl Reader<'_> {
    async fn run(&self, process: &Process, protocol: Protocol, seconds: f64) -> Result<Run, Failure> {
        let (name, word) = match protocol {
            Protocol::Http => ("http", "http"),
            Protocol::Grpc => ("grpc", "grpc"),
        };
        let before = process.cpu_seconds();
        let output = Command::new(std::env::current_exe()?)
            .args(["client", "--protocol", word, "--key", &test_key()])
            .args(["--address", &process.address(name)?.to_string()])
            .args(["--connections", &self.options.connections.to_string(), "--seconds", &seconds.to_string()])
            .arg("--paths")
            .arg(&self.paths)
            .stderr(std::process::Stdio::inherit())
            .output()
            .await?;
        if !output.status.success() {
            return Err("a client failed".into());
        }
        let outcome: Outcome = serde_json::from_slice(&output.stdout)?;
        let cpu_us = (process.cpu_seconds() - before) * 1e6 / outcome.requests.max(1) as f64;
        Ok(Run { outcome, cpu_us })
    }

    /// Runs the kinds in turns, after a short run of each that does not count.
    async fn compare<const N: usize>(&self, kinds: [(&Process, Protocol); N]) -> Result<[Figures; N], Failure> {
        let mut runs: [Vec<Run>; N] = [const { Vec::new() }; N];
        for (process, protocol) in kinds {
            self.run(process, protocol, self.options.seconds.min(1.0)).await?;
        }
        for _ in 0..self.options.rounds {
            for ((process, protocol), runs) in kinds.iter().zip(&mut runs) {
                runs.push(self.run(process, *protocol, self.options.seconds).await?);
            }
        }
        Ok(runs.map(|runs| {
            let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
            Figures {
                rate: of(|run| run.outcome.requests as f64 / run.outcome.seconds),
                p50_ms: of(|run| run.outcome.p50_ms),
                p99_ms: of(|run| run.outcome.p99_ms),
                cpu_us: of(|run| run.cpu_us),
            }
        }))
    }
}

/// Measures and prints the reads.
pub(crate) async fn run(options: &Options, service: &Service, dir: &Path) -> Result<(), Failure> {
    let by_id = Reader { options, paths: dir.join(PATHS) };
    let list = Reader { options, paths: dir.join("bench-list") };
    std::fs::write(&list.paths, LIST)?;
    let bare = bare_with_answers(service, &by_id.paths, dir).await?;
    let service = &service.process;

    println!("\nReads, {} connections, medians of {} runs", options.connections, options.rounds);
    row(&["", "requests/s", "of bare", "p50 ms", "p99 ms", "CPU µs", "aim"]);
    let [plain, ours, grpc] =
        by_id.compare([(&bare, Protocol::Http), (service, Protocol::Http), (service, Protocol::Grpc)]).await?;
    print("bare handler, one thesis", &plain, &plain, "");
    print("GET /v1/theses/{id}", &ours, &plain, &aim(ours.rate / plain.rate, 0.35));
    print("gRPC GetThesis", &grpc, &plain, "");
    let [plain, ours] = list.compare([(&bare, Protocol::Http), (service, Protocol::Http)]).await?;
    print("bare handler, 25 theses", &plain, &plain, "");
    print(&format!("GET {LIST}"), &ours, &plain, &aim(ours.rate / plain.rate, 0.20));
    Ok(())
}

fn print(name: &str, figures: &Figures, bare: &Figures, aim: &str) {
    let ratio = format!("{:.2}", figures.rate / bare.rate);
    let milliseconds = |time: f64| format!("{time:.2}");
    row(&[
        name,
        &number(figures.rate),
        &ratio,
        &milliseconds(figures.p50_ms),
        &milliseconds(figures.p99_ms),
        &number(figures.cpu_us),
        aim,
    ]);
}

/// Starts the bare handler with what the service answers.
async fn bare_with_answers(service: &Service, paths: &Path, dir: &Path) -> Result<Process, Failure> {
    let paths = std::fs::read_to_string(paths)?;
    let one = paths.lines().next().ok_or("there are no theses")?;
    let mut connection = Connection::open(service.process.address("http")?).await?;
    let files = [(one, dir.join("bench-answer-one")), (LIST, dir.join("bench-answer-list"))];
    for (path, file) in &files {
        let answer = connection.ask_ok(&get(path, &test_key())).await?;
        std::fs::write(file, bare::prepared(&answer))?;
    }
    Process::bare(&files[0].1, &files[1].1).await
}

//! Runs seeds, each in a process of its own: there nothing depends on what ran before, and a run that hangs can be
//! ended. A library that comes before the C library gives that process random bytes from the seed.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::join_all;
use parking_lot::Mutex;
use tempfile::TempDir;
use thesis_net::clock::{SystemIdSource, random};
use tokio::time::{Instant, timeout};

use super::{schedule::faults_of, shrink::shrink};

/// The test that is a run, if it has a file for its trace.
const TEST: &str = "tests::simulation::every_history_holds";
/// The seed of a run, the numbers of its faults, and the file of its trace.
pub(super) const SEED: &str = "SIMULATION_SEED";
pub(super) const FAULTS: &str = "SIMULATION_FAULTS";
pub(super) const TRACE: &str = "SIMULATION_TRACE";
/// Seconds in which runs begin, and the number of runs at the same time.
const SECONDS: &str = "SIMULATION_SECONDS";
const LANES: &str = "SIMULATION_LANES";
const USUAL_SECONDS: u64 = 4;
const CI_SECONDS: u64 = 120;
/// Seeds that run first.
const FIXED: [u64; 3] = [1, 2, 3];
/// Time limit of a run, in real time.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);
/// Lines of a failed run that are shown.
const SHOWN_LINES: usize = 60;

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// The numbers in a list with commas between them.
pub(super) fn numbers(list: &str) -> Vec<usize> {
    list.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().unwrap()).collect()
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn every_fault(seed: u64) -> Vec<usize> {
    (0..faults_of(seed).len()).collect()
}

/// The sum of what runs did.
#[derive(Default)]
struct Totals {
    runs: usize,
    simulated_ms: u64,
    faults: usize,
    facts: usize,
}

impl Totals {
    fn add(&mut self, trace: &str) {
        let ended_ms = trace.lines().next_back().and_then(|line| line.split_whitespace().next()?.parse().ok());
        self.runs += 1;
        self.simulated_ms += ended_ms.unwrap_or(0);
        self.faults += trace.lines().filter(|line| line.ends_with(" begins")).count();
        self.facts += trace.lines().count();
    }
}

/// Runs seeds.
pub(super) struct Campaign {
    folder: TempDir,
    library: PathBuf,
    runs: AtomicUsize,
}

impl Campaign {
    /// Compiles the library of random bytes.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("seeded_random.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/simulation/seeded_random.c");
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        assert!(compiled.unwrap().success(), "{} does not compile", source.display());
        Self { folder, library, runs: AtomicUsize::new(0) }
    }

    /// Runs a seed with some of its faults; returns its trace, or the output of its process and its trace so far.
    pub(super) async fn run(&self, seed: u64, faults: &[usize]) -> Result<String, String> {
        let trace = self.folder.path().join(self.runs.fetch_add(1, Ordering::Relaxed).to_string());
        let mut command = tokio::process::Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
            .env("LD_PRELOAD", &self.library)
            .env(SEED, seed.to_string())
            .env(FAULTS, list(faults))
            .env(TRACE, &trace)
            .kill_on_drop(true);
        let ended = timeout(RUN_TIMEOUT, command.output()).await;
        let traced = fs::read_to_string(&trace).unwrap_or_default();
        // It may not exist.
        drop(fs::remove_file(&trace));
        match ended {
            Ok(output) => {
                let output = output.unwrap();
                if output.status.success() {
                    return Ok(traced);
                }
                let text = [output.stdout, output.stderr].concat();
                Err(format!("{}\n{}", last_lines(&traced), last_lines(&String::from_utf8_lossy(&text))))
            }
            Err(_) => Err(format!("{}\nit did not end in time", last_lines(&traced))),
        }
    }

    /// Runs the seed and faults that somebody asks for, or fixed and fresh seeds until the time is over.
    pub(super) async fn run_seeds(&self) {
        if let Some(seed) = setting(SEED) {
            let faults = env::var(FAULTS).map_or_else(|_| every_fault(seed), |list| numbers(&list));
            match self.run(seed, &faults).await {
                Ok(trace) => println!("{trace}"),
                Err(failure) => panic!("{failure}"),
            }
            return;
        }
        let usual = if env::var_os("CI").is_some() { CI_SECONDS } else { USUAL_SECONDS };
        let budget = Duration::from_secs(setting(SECONDS).unwrap_or(usual));
        let lanes = setting(LANES).unwrap_or(1);
        let fresh = std::iter::repeat_with(|| u64::from_le_bytes(random(&SystemIdSource)) >> 1);
        let seeds = Mutex::new(FIXED.into_iter().chain(fresh));
        let (began, totals) = (Instant::now(), Mutex::new(Totals::default()));
        let lane = async || {
            let mut is_first = true;
            while is_first || began.elapsed() < budget {
                is_first = false;
                let seed = seeds.lock().next().expect("there are always more seeds");
                println!("simulating seed {seed}");
                match self.run(seed, &every_fault(seed)).await {
                    Ok(trace) => totals.lock().add(&trace),
                    Err(failure) => self.report(seed, failure).await,
                }
            }
        };
        join_all((0..lanes).map(|_| lane())).await;
        let Totals { runs, simulated_ms, faults, facts } = totals.into_inner();
        let minutes = simulated_ms / 60_000;
        println!("{runs} seeds, {minutes} simulated minutes, {faults} faults, {facts} facts");
    }

    /// Shrinks the schedule of a seed that fails, and says how to run it again.
    async fn report(&self, seed: u64, failure: String) {
        println!("seed {seed} fails; its schedule is shortened");
        let fails = async |faults: Vec<usize>| self.run(seed, &faults).await.err();
        let (faults, failure) = shrink(faults_of(seed).len(), failure, fails).await;
        let planned = faults_of(seed);
        for number in &faults {
            println!("fault {number}: {:?}", planned[*number]);
        }
        panic!("{failure}\nTo run it again: tests/simulate --seed {seed} --faults '{}'", list(&faults));
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_faults_are_read_as_they_are_shown() {
        for faults in [vec![], vec![3], vec![0, 12, 7]] {
            assert_eq!(numbers(&list(&faults)), faults);
        }
    }

    #[test]
    fn the_totals_of_runs() {
        let mut totals = Totals::default();
        let trace = "      0 core-0 Started\n   4100 schedule fault: CoreEnds(1) begins\n  90000 core-0 Started\n";
        totals.add(trace);
        totals.add(trace);
        assert_eq!((totals.runs, totals.simulated_ms, totals.faults, totals.facts), (2, 180_000, 2, 6));
    }
}

//! Runs harnesses: functions of bytes from outside that panic where a rule is broken.
//!
//! A harness stands beside the other tests of its code. It has the name of its corpus, a folder of `corpus/` here.
//! `cargo test` runs a harness on its corpus and on mutations of it, the same ones in every run. `tests/fuzz` builds
//! the same tests with `cfg(fuzzing)`: then bolero drives one of them until its time has passed. An input that it finds
//! becomes a file of the corpus.
//!
//! Each input has a limit of processor time, and under bolero one of memory. Other tests share the process of a
//! harness in `cargo test`, so its memory says nothing there.

#[cfg(not(fuzzing))]
mod mutations;

use std::time::Duration;
#[cfg(not(fuzzing))]
use std::{fs, path::Path};

use rustix::time::{ClockId, clock_gettime};

/// Limit of the processor time of one input. An ordinary test has no optimizations.
const TIME_LIMIT: Duration = if cfg!(fuzzing) { Duration::from_millis(100) } else { Duration::from_secs(1) };
/// Limit of the memory that one input adds to the process, in KiB.
#[cfg(fuzzing)]
const MEMORY_LIMIT: u64 = 64 * 1024;

/// Makes a test of each harness, which is a function of the same module and has the name of its corpus.
#[macro_export]
macro_rules! fuzz_tests {
    ($($harness:ident),+ $(,)?) => {
        mod run {
            $(
                #[test]
                fn $harness() {
                    $crate::run(stringify!($harness), super::$harness);
                }
            )+
        }
    };
}

/// Runs a harness on its corpus and on mutations of it.
#[cfg(not(fuzzing))]
pub fn run(name: &str, harness: fn(&[u8])) {
    run_on(&corpus(name), name, harness);
}

#[cfg(not(fuzzing))]
fn run_on(corpus: &[Vec<u8>], name: &str, harness: fn(&[u8])) {
    // This may set up what all calls share, and has no limit.
    harness(b"");
    for input in corpus {
        check(harness, input, TIME_LIMIT);
    }
    let mut numbers = mutations::Numbers::of(name);
    for _ in 0..mutation_count(name) {
        check(harness, &mutations::mutated(corpus, &mut numbers), TIME_LIMIT);
    }
}

/// Number of mutations in an ordinary test. A debug build takes about half a second for them.
#[cfg(not(fuzzing))]
fn mutation_count(name: &str) -> usize {
    match name {
        // Each input is a call of a whole core.
        "grpc_web" => 200,
        "imports" | "json_bodies" => 1_000,
        _ => 3_000,
    }
}

/// Lets bolero drive a harness. It does not return.
#[cfg(fuzzing)]
pub fn run(_name: &str, harness: fn(&[u8])) {
    harness(b"");
    bolero::check!().for_each(move |input: &[u8]| {
        let (before, old_peak) = memory();
        check(harness, input, TIME_LIMIT);
        let (_, peak) = memory();
        let used = peak.saturating_sub(before);
        // An old peak says nothing about this input.
        assert!(peak == old_peak || used <= MEMORY_LIMIT, "the input took {used} KiB");
    });
}

/// The files of a corpus, in the order of their names.
#[cfg(not(fuzzing))]
#[expect(clippy::panic, reason = "a test without its corpus fails")]
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    assert!(!files.is_empty(), "{} has no files", folder.display());
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))).collect()
}

fn check(harness: fn(&[u8]), input: &[u8], limit: Duration) {
    let shown = ShownOnPanic(input);
    let began = processor_time();
    harness(input);
    let time = processor_time() - began;
    assert!(time <= limit, "the input took {time:?} of processor time");
    drop(shown);
}

/// Prints an input whose harness panics.
struct ShownOnPanic<'a>(&'a [u8]);

impl Drop for ShownOnPanic<'_> {
    fn drop(&mut self) {
        // bolero shows the input itself, made shorter.
        if std::thread::panicking() && !cfg!(fuzzing) {
            eprintln!("the harness panics at b\"{}\"", self.0.escape_ascii());
        }
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a thread's time is not negative")
}

/// The present and the largest memory of the process in KiB.
#[cfg(fuzzing)]
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("every process has it");
        line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
    };
    (of("VmRSS:"), of("VmHWM:"))
}

#[cfg(all(test, not(fuzzing)))]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Panics at bytes that only a mutation has.
    fn fragile(input: &[u8]) {
        assert!(input.len() < 9, "too long");
    }

    fn slow(_: &[u8]) {
        for number in 0..100_000_u64 {
            black_box(number);
        }
    }

    #[test]
    #[should_panic(expected = "too long")]
    fn mutations_reach_what_the_corpus_does_not() {
        run_on(&[b"seed".to_vec()], "mutations", fragile);
    }

    #[test]
    #[should_panic(expected = "of processor time")]
    fn a_slow_harness_fails() {
        check(slow, b"", Duration::from_micros(1));
    }
}

//! Figures: percentiles, the system's figures of a process, and how they are printed.

use std::time::Duration;

/// Linux's unit of processor time, on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// The time in milliseconds below which this part of the times lies.
pub(crate) fn percentile(times: &mut [Duration], part: f64) -> f64 {
    times.sort_unstable();
    let index = (times.len() as f64 * part) as usize;
    times.get(index.min(times.len().saturating_sub(1))).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// The middle figure.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A figure with the digits that matter.
pub(crate) fn number(figure: f64) -> String {
    if figure < 100.0 {
        return format!("{figure:.2}");
    }
    let digits = format!("{figure:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// An aim that a figure must reach, and whether it did.
pub(crate) fn aim(figure: f64, wanted: f64) -> String {
    format!("≥ {} {}", number(wanted), met(figure >= wanted))
}

/// An aim that a figure must stay below, and whether it did.
pub(crate) fn aim_below(figure: f64, limit: f64, unit: &str) -> String {
    format!("< {limit}{unit} {}", met(figure < limit))
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

/// Prints a row: a name, then figures.
pub(crate) fn row(cells: &[&str]) {
    let mut cells = cells.iter();
    let name = cells.next().copied().unwrap_or_default();
    let figures: String = cells.map(|cell| format!("  {cell:>11}")).collect();
    println!("  {name:<34}{figures}");
}

/// Bytes that this process caused to be written, where the system tells.
pub(crate) fn bytes_written() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/io").ok()?;
    told.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

/// Processor time of a process, where the system tells.
pub(crate) fn cpu_seconds(id: u32) -> Option<f64> {
    let told = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // After the name, which may hold anything, and its parenthesis.
    let fields: Vec<&str> = told.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// Resident memory in MiB, where the system tells.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    /// The pages of mapped files in it, which the system takes back when it needs them.
    files: f64,
    at_most: f64,
}

impl Memory {
    /// Of a process.
    pub(crate) fn of(id: u32) -> Self {
        let told = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let mebibytes = |name: &str| {
            let kibibytes =
                told.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
            kibibytes.map_or(f64::NAN, |kibibytes: f64| kibibytes / 1024.0)
        };
        Self { resident: mebibytes("VmRSS:"), files: mebibytes("RssFile:"), at_most: mebibytes("VmHWM:") }
    }
}

impl std::iter::Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let none = Self { resident: 0.0, files: 0.0, at_most: 0.0 };
        all.fold(none, |sum, next| Self {
            resident: sum.resident + next.resident,
            files: sum.files + next.files,
            at_most: sum.at_most + next.at_most,
        })
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { resident, files, at_most } = self;
        write!(formatter, "{resident:.0} MiB resident ({files:.0} of it file pages), {at_most:.0} at most")
    }
}

/// The machine, and how busy it is with other work.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = told.split(' ').next().unwrap_or("-");
    format!("{cores} cores, load average {load} at the start; what else runs here takes from every figure but CPU µs")
}

//! Figures: percentiles, what the system says of a process, and how they are printed.

use std::time::Duration;

/// What Linux counts processor time in, whatever the machine.
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

/// A figure with as many digits as one reads.
pub(crate) fn number(figure: f64) -> String {
    if figure < 100.0 {
        return format!("{figure:.2}");
    }
    let digits = format!("{figure:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// An aim from below, and whether it was met.
pub(crate) fn aim(figure: f64, wanted: f64) -> String {
    format!("≥ {} {}", number(wanted), met(figure >= wanted))
}

/// An aim from above, in milliseconds.
pub(crate) fn aim_below(figure: f64, limit: f64) -> String {
    format!("p99 < {limit:.0} ms {}", met(figure < limit))
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

/// Resident memory of a process, now and at most, where the system tells.
pub(crate) fn memory(id: u32) -> String {
    let told = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mebibytes = |name: &str| {
        let kibibytes = told.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
        kibibytes.map_or_else(|| "-".to_owned(), |kibibytes: f64| format!("{:.0}", kibibytes / 1024.0))
    };
    format!("{} MiB resident, {} at most", mebibytes("VmRSS:"), mebibytes("VmHWM:"))
}

/// The machine, and how busy it is with something else.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = told.split(' ').next().unwrap_or("-");
    format!("{cores} cores, load average {load} at the start; what else runs here takes from every figure but CPU µs")
}

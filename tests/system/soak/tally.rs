//! The results of requests, and how long they took.

use std::{collections::BTreeMap, fmt, sync::Mutex, time::Duration};

use tokio::time::Instant;

/// One kind of requests.
#[derive(Clone, Default)]
pub(super) struct Figures {
    /// From the first try to the last answer, in milliseconds.
    took: Vec<u128>,
    /// Why first tries failed.
    first: BTreeMap<String, usize>,
    /// Why second tries failed.
    last: BTreeMap<String, usize>,
}

impl Figures {
    fn add(&mut self, took: Duration, first: Option<&str>, last: Option<&str>) {
        self.took.push(took.as_millis());
        for (failures, why) in [(&mut self.first, first), (&mut self.last, last)] {
            if let Some(why) = why {
                *failures.entry(why.to_owned()).or_default() += 1;
            }
        }
    }

    /// Requests sent.
    pub(super) fn sent(&self) -> usize {
        self.took.len()
    }

    /// Requests that failed twice.
    pub(super) fn failed(&self) -> usize {
        self.last.values().sum()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = |percent: usize| took.get((took.len() * percent / 100).min(took.len().max(1) - 1)).unwrap_or(&0);
        let (p50, p99, max) = (at(50), at(99), at(100));
        write!(formatter, "{} sent, p50 {p50} p99 {p99} max {max} ms", took.len())?;
        if !self.first.is_empty() {
            write!(formatter, ", failed first {:?} then {:?}", self.first, self.last)?;
        }
        Ok(())
    }
}

/// Writes and reads: all of them, and those since the last print.
#[derive(Default)]
pub(super) struct Tally {
    lately: Mutex<[Figures; 2]>,
    all: Mutex<[Figures; 2]>,
}

impl Tally {
    /// Notes a request: why its tries failed, if they did.
    pub(super) fn add(&self, write: bool, since: Instant, first: Option<&str>, last: Option<&str>) {
        for figures in [&self.lately, &self.all] {
            figures.lock().unwrap()[usize::from(!write)].add(since.elapsed(), first, last);
        }
    }

    /// Prints the figures since the last print.
    pub(super) fn say(&self, when: &str) {
        let [writes, reads] = std::mem::take(&mut *self.lately.lock().unwrap());
        println!("{when:>24}  writes: {writes}\n{:>24}   reads: {reads}", "");
    }

    /// Prints the figures so far, and forgets them.
    pub(super) fn begin(&self, when: &str) {
        self.say(when);
        *self.all.lock().unwrap() = Default::default();
    }

    /// Prints all figures; gives requests sent and requests that failed twice.
    pub(super) fn total(&self) -> (usize, usize) {
        let [writes, reads] = self.all.lock().unwrap().clone();
        let (sent, failed) = (writes.sent() + reads.sent(), writes.failed() + reads.failed());
        println!("in all, writes: {writes}\n         reads: {reads}");
        println!("{failed} of {sent} requests failed after one retry");
        (sent, failed)
    }
}

//! Counts of attempts, which show how an endpoint does.
//!
//! Latencies are counted by class: up to 15 ms each has a class of its own, above that each power of two has eight
//! classes. So the middle of a class differs from its latencies by at most 6.25 %.

/// Latencies below this have a class each.
const EXACT: u32 = 16;
/// The power of two at which the wider classes begin.
const EXACT_BITS: u32 = EXACT.ilog2();
/// Classes of each power of two.
const CLASSES_PER_POWER: u32 = 8;
/// Maximum latency that has a class, in milliseconds. Attempts end long before.
const MAX_LATENCY: u32 = 65_535;

/// Counts of attempts, and of deliveries that wait for a further one.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttemptCounts {
    /// Attempts, also ones that could not be sent.
    #[prost(uint64, tag = "1")]
    pub attempts: u64,
    /// Attempts with a 2xx response.
    #[prost(uint64, tag = "2")]
    pub successes: u64,
    /// Deliveries whose first attempt failed and that are tried again.
    #[prost(uint64, tag = "3")]
    pub began_retrying: u64,
    /// Deliveries that ended after they were tried again, or waited for that.
    #[prost(uint64, tag = "4")]
    pub ended_retrying: u64,
    /// Attempts with a response, by class of latency.
    #[prost(uint32, repeated, tag = "5")]
    pub latencies: Vec<u32>,
}

fn class_of(latency_ms: i32) -> usize {
    let latency = u32::try_from(latency_ms).unwrap_or(0).min(MAX_LATENCY);
    if latency < EXACT {
        return latency as usize;
    }
    let power = latency.ilog2();
    let within = (latency >> (power - CLASSES_PER_POWER.ilog2())) - CLASSES_PER_POWER;
    (EXACT + (power - EXACT_BITS) * CLASSES_PER_POWER + within) as usize
}

/// The middle of a class, in milliseconds.
fn latency_of(class: usize) -> i32 {
    let class = u32::try_from(class).unwrap_or(u32::MAX).min(255);
    let latency = if class < EXACT {
        class
    } else {
        let (power, within) = ((class - EXACT) / CLASSES_PER_POWER, (class - EXACT) % CLASSES_PER_POWER);
        let width = 1_u32 << (power + EXACT_BITS - CLASSES_PER_POWER.ilog2()).min(27);
        (CLASSES_PER_POWER + within).saturating_mul(width).saturating_add((width - 1) / 2)
    };
    i32::try_from(latency).unwrap_or(i32::MAX)
}

impl AttemptCounts {
    /// Counts an attempt that ended with this response and latency.
    pub fn add_attempt(&mut self, succeeded: bool, response_latency_ms: Option<i32>) {
        self.attempts += 1;
        self.successes += u64::from(succeeded);
        if let Some(latency_ms) = response_latency_ms {
            let class = class_of(latency_ms);
            if self.latencies.len() <= class {
                self.latencies.resize(class + 1, 0);
            }
            self.latencies[class] = self.latencies[class].saturating_add(1);
        }
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.attempts = self.attempts.saturating_add(other.attempts);
        self.successes = self.successes.saturating_add(other.successes);
        self.began_retrying = self.began_retrying.saturating_add(other.began_retrying);
        self.ended_retrying = self.ended_retrying.saturating_add(other.ended_retrying);
        if self.latencies.len() < other.latencies.len() {
            self.latencies.resize(other.latencies.len(), 0);
        }
        for (count, more) in self.latencies.iter_mut().zip(&other.latencies) {
            *count = count.saturating_add(*more);
        }
    }

    /// The share of attempts that succeeded; none without attempts.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than a float has")]
    pub fn success_rate(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.successes as f64 / self.attempts as f64)
    }

    /// The latency in milliseconds that this percentage of responses did not exceed; none without responses.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<i32> {
        let responses: u64 = self.latencies.iter().map(|count| u64::from(*count)).sum();
        let rank = (responses * percent).div_ceil(100).max(1);
        let mut passed = 0;
        let class = self.latencies.iter().position(|count| {
            passed += u64::from(*count);
            passed >= rank
        });
        class.map(latency_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_close_to_each_of_its_latencies() {
        let mut last = 0;
        for latency in 0..=65_535_i32 {
            let class = class_of(latency);
            assert!((last..=last + 1).contains(&class), "{latency} has the class {class} after {last}");
            last = class;
            let error = (latency_of(class) - latency).abs();
            assert!(error * 16 <= latency, "{latency} counts as {}", latency_of(class));
        }
        assert_eq!([class_of(-1), class_of(i32::MAX)], [0, class_of(65_535)]);
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let mut counts = AttemptCounts::default();
        assert_eq!((counts.percentile(50), counts.success_rate()), (None, None));
        (1..=10).for_each(|latency| counts.add_attempt(latency > 1, Some(latency)));
        counts.add_attempt(false, None);
        counts.add_attempt(true, Some(15));
        assert_eq!([0, 1, 50, 99, 100].map(|percent| counts.percentile(percent)), [1, 1, 6, 15, 15].map(Some));
        assert_eq!(counts.success_rate(), Some(10.0 / 12.0));
    }

    #[test]
    fn counts_are_added() {
        let (mut few, mut many) = (AttemptCounts::default(), AttemptCounts::default());
        few.add_attempt(true, Some(3));
        many.add_attempt(false, Some(4_000));
        many.began_retrying = 1;
        few.add(&many);
        assert_eq!((few.attempts, few.successes, few.began_retrying), (2, 1, 1));
        assert_eq!((few.percentile(50), few.percentile(100)), (Some(3), many.percentile(100)));
    }
}

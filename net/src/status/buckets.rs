//! Counts by exponential buckets, 2 % wide each, so that a quantile is within 1 % of the measured value.
//!
//! The histograms of [`crate::metric`] are for graphs and alerts: their few buckets are too wide for a quantile.

use std::collections::BTreeMap;

use thesis_proto::v1;

/// Upper bound of the first bucket, in seconds.
const LOWEST: f64 = 0.000_01;
/// The upper bound of a bucket divided by its lower bound.
const GROWTH: f64 = 1.02;
/// Number of buckets; the last one begins shortly before a day.
pub(super) const BUCKETS: usize = 1_157;

/// The bucket of a time. Times that two clocks make negative count in the first one.
pub(super) fn bucket_of(seconds: f64) -> usize {
    let index = ((seconds / LOWEST).ln() / GROWTH.ln()).ceil();
    // A conversion takes the nearest number that there is, and 0 for one that is none.
    (index as usize).min(BUCKETS - 1)
}

/// Counts by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(BTreeMap<u32, u64>);

impl Buckets {
    pub(super) fn add_one(&mut self, bucket: u32, count: u64) {
        let sum = self.0.entry(bucket).or_default();
        *sum = sum.saturating_add(count);
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(bucket, count)| self.add_one(*bucket, *count));
    }

    /// Adds counts that a process reported. Buckets that there are not are left out.
    pub fn add(&mut self, reported: &v1::BucketCounts) {
        for (bucket, count) in reported.buckets.iter().zip(&reported.counts) {
            if (*bucket as usize) < BUCKETS {
                self.add_one(*bucket, *count);
            }
        }
    }

    /// The counts as a report has them.
    #[must_use]
    pub fn to_message(&self) -> v1::BucketCounts {
        v1::BucketCounts { buckets: self.0.keys().copied().collect(), counts: self.0.values().copied().collect() }
    }

    /// The count of one bucket.
    pub(super) fn count_of(&self, bucket: u32) -> u64 {
        self.0.get(&bucket).copied().unwrap_or_default()
    }

    /// Number of measurements.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().fold(0_u64, |sum, count| sum.saturating_add(*count))
    }

    /// The time in milliseconds that this share of the measurements did not exceed; none without measurements.
    #[must_use]
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut below = 0_u64;
        let (bucket, _) = self.0.iter().find(|(_, count)| {
            below = below.saturating_add(**count);
            below >= rank
        })?;
        // The middle of the bucket, to the microsecond.
        let seconds = LOWEST * GROWTH.powf(f64::from(*bucket) - 0.5);
        Some((seconds * 1_000_000.0).round() / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quantile_is_within_one_percent(mut times in prop::collection::vec(0.000_2_f64..50_000.0, 1..300)) {
            let mut buckets = Buckets::default();
            for seconds in &times {
                buckets.add_one(u32::try_from(bucket_of(*seconds)).unwrap(), 1);
            }
            times.sort_by(f64::total_cmp);
            for share in [0.5, 0.9, 0.99] {
                let rank = ((times.len() as f64 * share).ceil() as usize).max(1);
                let (measured, given) = (times[rank - 1] * 1_000.0, buckets.quantile_ms(share).unwrap());
                // Half a microsecond comes from the rounding.
                prop_assert!((given - measured).abs() <= measured * 0.01 + 0.000_5, "{given} for {measured}");
            }
        }
    }

    #[test]
    fn extremes_have_a_bucket() {
        for (seconds, bucket) in
            [(f64::NAN, 0), (-1.0, 0), (0.0, 0), (LOWEST, 0), (LOWEST * 1.01, 1), (1e9, BUCKETS - 1)]
        {
            assert_eq!(bucket_of(seconds), bucket, "{seconds}");
        }
        assert!((1_150..BUCKETS).contains(&bucket_of(86_400.0)));
    }

    #[test]
    fn reports_add_up_and_unknown_buckets_do_not_count() {
        let mut sum = Buckets::default();
        assert_eq!((sum.count(), sum.quantile_ms(0.5)), (0, None));
        let beyond = u32::try_from(BUCKETS).unwrap();
        sum.add(&v1::BucketCounts { buckets: vec![1, 7, beyond], counts: vec![2, u64::MAX, 3] });
        sum.add(&v1::BucketCounts { buckets: vec![1, 7], counts: vec![1, 1] });
        assert_eq!(sum.to_message(), v1::BucketCounts { buckets: vec![1, 7], counts: vec![3, u64::MAX] });
        assert_eq!(sum.count(), u64::MAX);
    }
}

//! Declarations of metrics: each once, with its labels and its text. All series of a declared metric exist from the
//! start, so that the first failure of a kind is seen as a rise from 0. A series is found without a lookup by label.
//!
//! A label has a fixed number of values. None is an id, a path, a key or an address.
//!
//! The families are not those of `prometheus-client`, which would take more code. It writes OpenMetrics alone: there
//! the text and the type of a counter lack the suffix `_total`, and each text gets a dot, so that its output would have
//! to be rewritten. Its families accept any label, so that the fixed values would remain here. And the metrics of the
//! process come from a crate that knows `metrics` alone.
//!
//! # Recipe: a metric
//!
//! The example is `mails_total`: a line in the crate's `metrics.rs` (the edge's is `request_metrics.rs`), the line that
//! counts, and a row in the table of `docs/guides/observability.md`, which `tests/system/metrics.rs` compares with a
//! scrape. If people should see it: a panel in `deploy/grafana/`, a rule with its test in `deploy/prometheus/`.

mod lag;

use std::sync::OnceLock;

pub use metrics::{Counter, Gauge, Histogram};
use metrics::{Key, KeyName, Label, Level, Metadata, with_recorder};
use parking_lot::Mutex;

pub use self::lag::FollowerLag;

/// Metadata of every series. The recorder for Prometheus ignores it.
const METADATA: Metadata<'static> = Metadata::new("", Level::INFO, None);

/// The values of a label that are known only when the program runs.
pub const ANY: &[&str] = &[];

/// A counter, a gauge or a histogram.
pub trait Series: Sized + 'static {
    /// A series that nobody reads.
    const NOTHING: Self;

    /// Gives a metric its text.
    fn describe(name: &'static str, text: &'static str);

    /// Begins a series.
    fn begin(key: &Key) -> Self;
}

macro_rules! series {
    ($($kind:ident $describe:ident $register:ident),+) => {
        $(impl Series for $kind {
            const NOTHING: Self = Self::noop();

            fn describe(name: &'static str, text: &'static str) {
                with_recorder(|recorder| recorder.$describe(KeyName::from_const_str(name), None, text.into()));
            }

            fn begin(key: &Key) -> Self {
                with_recorder(|recorder| recorder.$register(key, &METADATA))
            }
        })+
    };
}

series!(
    Counter describe_counter register_counter,
    Gauge describe_gauge register_gauge,
    Histogram describe_histogram register_histogram
);

/// A label, and all its values.
type Values = (&'static str, &'static [&'static str]);

/// A metric with a series for each choice of a value for each of its labels.
pub struct Metric<S> {
    name: &'static str,
    labels: &'static [Values],
    text: &'static str,
    /// The last one is for values that were not declared; nobody reads it.
    series: OnceLock<Box<[S]>>,
}

impl<S: Series> Metric<S> {
    /// A metric with its labels. Its name ends in its unit.
    pub const fn new(name: &'static str, labels: &'static [Values], text: &'static str) -> Self {
        Self { name, labels, text, series: OnceLock::new() }
    }

    /// Gives the metric its text, and begins its series.
    pub fn declare(&self) {
        S::describe(self.name, self.text);
        self.series();
    }

    fn series(&self) -> &[S] {
        self.series.get_or_init(|| {
            let count: usize = self.labels.iter().map(|(_, values)| values.len()).product();
            (0..count).map(|index| self.begin(&self.values_of(index))).chain([S::NOTHING]).collect()
        })
    }

    /// The values of a series, one for each label.
    fn values_of(&self, mut index: usize) -> Vec<&'static str> {
        let value = |(_, values): &Values| {
            let value = values[index % values.len()];
            index /= values.len();
            value
        };
        let mut values: Vec<_> = self.labels.iter().rev().map(value).collect();
        values.reverse();
        values
    }

    /// Begins a series, or finds it again. This takes far longer than [`Self::of`]; it is for labels of [`ANY`] value.
    pub fn begin(&self, values: &[&str]) -> S {
        let labels = self.labels.iter().zip(values).map(|((label, _), value)| Label::new(*label, (*value).to_owned()));
        S::begin(&Key::from_parts(self.name, labels.collect::<Vec<_>>()))
    }

    /// The only series of a metric without labels.
    pub fn one(&self) -> &S {
        self.of(&[])
    }

    /// The series of a value of the only label.
    pub fn at(&self, value: &str) -> &S {
        self.of(&[value])
    }

    /// The series of a value of each label.
    pub fn of(&self, chosen: &[&str]) -> &S {
        let index = self.labels.iter().zip(chosen).try_fold(0, |index, ((_, values), value)| {
            Some(index * values.len() + values.iter().position(|known| known == value)?)
        });
        let index = index.filter(|_| chosen.len() == self.labels.len());
        debug_assert!(index.is_some(), "{} has no series of {chosen:?}", self.name);
        let series = self.series();
        &series[index.unwrap_or(series.len() - 1)]
    }
}

/// Declares metrics, each as a static, and a function that begins all of them.
#[macro_export]
macro_rules! declare_metrics {
    ($vis:vis fn $declare:ident; $($name:ident: $kind:ident = $metric:literal, $labels:expr, $text:literal;)+) => {
        $(
            #[doc = $text]
            $vis static $name: $crate::metric::Metric<$crate::metric::$kind> =
                $crate::metric::Metric::new($metric, $labels, $text);
        )+

        /// Begins these metrics. The recorder must be installed: a series that begins before it stays unread.
        $vis fn $declare() {
            $($name.declare();)+
        }
    };
}

/// Functions that set gauges before each read of the metrics.
static SAMPLERS: Mutex<Vec<Box<dyn Fn() + Send>>> = Mutex::new(Vec::new());

/// Adds a function that sets gauges before each read of the metrics.
pub fn add_sampler(sampler: impl Fn() + Send + 'static) {
    SAMPLERS.lock().push(Box::new(sampler));
}

/// Calls the samplers.
pub fn sample() {
    SAMPLERS.lock().iter().for_each(|sampler| sampler());
}

/// A count, or a time in milliseconds, as a gauge takes it.
#[expect(clippy::cast_precision_loss, reason = "counts and times are far below 2^52")]
pub const fn value(count: u64) -> f64 {
    count as f64
}

/// A time in milliseconds as seconds; a negative one counts as 0.
pub fn seconds(milliseconds: i64) -> f64 {
    value(u64::try_from(milliseconds).unwrap_or_default()) / 1_000.0
}

/// Work in progress: a gauge counts it until this is dropped.
#[derive(Debug)]
pub struct InProgress(&'static Gauge);

impl InProgress {
    /// Counts new work.
    #[must_use]
    pub fn begin(gauge: &'static Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_series_of_its_own() {
        let metric: Metric<Counter> =
            Metric::new("calls_total", &[("call", &["get", "scan"]), ("outcome", &["ok", "lost", "failed"])], "Calls");
        for index in 0..6 {
            let values = metric.values_of(index);
            assert!(std::ptr::eq(metric.of(&values), &metric.series()[index]), "{values:?}");
        }
        assert_eq!(metric.series().len(), 7);
        let one: Metric<Gauge> = Metric::new("open", &[], "Open");
        assert!(std::ptr::eq(one.one(), &one.series()[0]));
    }

    #[test]
    fn a_value_that_was_not_declared_is_a_mistake() {
        let metric: Metric<Counter> = Metric::new("calls_total", &[("call", &["get"]), ("outcome", &["ok"])], "Calls");
        for unknown in [&["get", "other"][..], &["other", "ok"], &["get"], &[]] {
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                assert!(std::ptr::eq(metric.of(unknown), &metric.series()[1]), "{unknown:?}");
            }));
            assert_eq!(found.is_err(), cfg!(debug_assertions), "{unknown:?}");
        }
    }
}

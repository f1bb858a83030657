//! Collects the bad fields of a request, so that one response names them all.

use std::ops::RangeInclusive;

use prost_types::Timestamp;
use thesis_proto::{
    error::{ApiError, FieldError},
    filter::CompiledFilter,
    time::{is_time, to_millis},
    v1,
};

use crate::{
    access::gate::Call,
    domain::{reference::TokenReference, window::is_in_history},
    error::Result,
};

/// Length of a cursor in characters.
pub const CURSOR: RangeInclusive<usize> = 1..=512;

/// Limit of reported bad fields: a response has hardly room for more.
const MAX_ERRORS: usize = 40;

/// The bad fields found so far.
#[derive(Debug, Default)]
pub struct Fields {
    errors: Vec<FieldError>,
}

impl Fields {
    /// Notes a bad field and the first rule that it breaks.
    pub fn reject(&mut self, param: &str, rule: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS && self.errors.iter().all(|error| error.param != param) {
            self.errors.push(FieldError::new(param, rule));
        }
    }

    /// Checks a length in characters.
    pub fn length(&mut self, param: &str, text: &str, allowed: RangeInclusive<usize>) {
        if !allowed.contains(&text.chars().count()) {
            self.reject(param, format!("must have {} to {} characters", allowed.start(), allowed.end()));
        } else if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            self.reject(param, "must not contain control characters");
        }
    }

    /// Checks the length of a field that may be absent.
    pub fn optional_length(&mut self, param: &str, text: Option<&str>, allowed: RangeInclusive<usize>) {
        if let Some(text) = text {
            self.length(param, text, allowed);
        }
    }

    /// Requires a text and checks its length.
    pub fn required<'a>(&mut self, param: &str, text: Option<&'a str>, allowed: RangeInclusive<usize>) -> &'a str {
        match text {
            Some(text) => self.length(param, text, allowed),
            None => self.reject(param, "is required"),
        }
        text.unwrap_or_default()
    }

    /// Reads a number within its range, or the default.
    pub fn limit(&mut self, param: &str, given: Option<i32>, allowed: RangeInclusive<i32>, default: i32) -> usize {
        let value = given.unwrap_or(default);
        if !allowed.contains(&value) {
            self.reject(param, format!("must be from {} to {}", allowed.start(), allowed.end()));
        }
        usize::try_from(value).unwrap_or_default()
    }

    /// Reads the number of rows of a page, and checks its cursor.
    pub fn page(&mut self, limit: Option<i32>, cursor: Option<&str>) -> usize {
        let limit = self.limit("limit", limit, 1..=100, 25);
        self.optional_length("cursor", cursor, CURSOR);
        limit
    }

    /// Reads the inclusive bounds of a window in whole milliseconds. The lower bound is rounded up, the upper one down.
    pub fn window(&mut self, after: Option<&Timestamp>, before: Option<&Timestamp>) -> (Option<i64>, Option<i64>) {
        for (name, bound) in [("created_after", after), ("created_before", before)] {
            if bound.is_some_and(|time| !is_time(time)) {
                self.reject(name, "must be a time of the years 1 to 9999");
            }
        }
        let order_key = |time: &Timestamp| (time.seconds, time.nanos);
        if let (Some(after), Some(before)) = (after, before)
            && order_key(before) < order_key(after)
        {
            self.reject("created_before", "must not be earlier than created_after");
        }
        let up = |time: &Timestamp| to_millis(time).saturating_add(i64::from(time.nanos % 1_000_000 != 0));
        (after.map(up), before.map(to_millis))
    }

    /// Reads `as_of`, the time of the figures, in unix milliseconds. Parts of a millisecond are cut off.
    pub fn as_of(&mut self, given: Option<&Timestamp>, call: &Call) -> Option<i64> {
        let (given, plan) = (given?, &call.caller.plan);
        let at = to_millis(given);
        if !is_time(given) {
            self.reject("as_of", "must be a time of the years 1 to 9999");
        } else if at > call.now_ms {
            self.reject("as_of", "must not be in the future");
        } else if !is_in_history(at, plan.window_start(call.now_ms)) {
            self.reject(
                "as_of",
                format!("must be in the plan's history, which reaches {} days back", plan.history_days),
            );
        }
        Some(at)
    }

    /// Reads an optional number of an enum; notes an unknown one.
    pub fn choice<E: TryFrom<i32>>(&mut self, param: &str, number: i32) -> Option<i32> {
        if E::try_from(number).is_err() {
            self.reject(param, "names an unknown value; name one of the enum, or none");
        }
        (number != 0).then_some(number)
    }

    /// Reads the reference to a token in the path of a request, and its chain.
    pub fn token(&mut self, text: String, chain: Option<String>) -> TokenReference {
        self.length("ref", &text, 1..=200);
        self.optional_length("chain", chain.as_deref(), 1..=32);
        TokenReference::new(text, chain)
    }

    /// Compiles a filter of events. It notes bad values with `prefix` before each name except `types`.
    pub fn filter(&mut self, types: &[i32], filters: Option<&v1::EventFilters>, prefix: &str) -> CompiledFilter {
        let types: Vec<v1::EventType> =
            types.iter().map(|number| v1::EventType::try_from(*number).unwrap_or_default()).collect();
        CompiledFilter::new(&types, filters).unwrap_or_else(|errors| {
            for error in errors {
                let param = if error.param == "types" { error.param } else { format!("{prefix}{}", error.param) };
                self.reject(&param, error.message);
            }
            CompiledFilter::default()
        })
    }

    /// Ends the checks. Fails with `VALIDATION_FAILED`, which names all bad fields.
    pub fn finish(self) -> Result<()> {
        if self.errors.is_empty() { Ok(()) } else { Err(ApiError::validation(&self.errors).into()) }
    }
}

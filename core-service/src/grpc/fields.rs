//! Collects the bad fields of a request, so that one response names them all.

use std::ops::RangeInclusive;

use thesis_proto::error::{ApiError, FieldError};

use crate::error::Result;

/// Limit of reported bad fields: a response has hardly room for more.
const MAX_ERRORS: usize = 40;

/// The bad fields found so far.
#[derive(Debug, Default)]
pub(super) struct Fields {
    errors: Vec<FieldError>,
}

impl Fields {
    /// Notes a bad field and the first rule that it breaks.
    pub(super) fn reject(&mut self, param: &str, rule: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS && self.errors.iter().all(|error| error.param != param) {
            self.errors.push(FieldError::new(param, rule));
        }
    }

    /// Checks a length in characters.
    pub(super) fn length(&mut self, param: &str, text: &str, allowed: RangeInclusive<usize>) {
        if !allowed.contains(&text.chars().count()) {
            self.reject(param, format!("must have {} to {} characters", allowed.start(), allowed.end()));
        } else if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            self.reject(param, "must not contain control characters");
        }
    }

    /// Checks the length of a field that may be absent.
    pub(super) fn optional_length(&mut self, param: &str, text: Option<&str>, allowed: RangeInclusive<usize>) {
        if let Some(text) = text {
            self.length(param, text, allowed);
        }
    }

    /// Requires a text and checks its length.
    pub(super) fn required<'a>(
        &mut self,
        param: &str,
        text: Option<&'a str>,
        allowed: RangeInclusive<usize>,
    ) -> &'a str {
        match text {
            Some(text) => self.length(param, text, allowed),
            None => self.reject(param, "is required"),
        }
        text.unwrap_or_default()
    }

    /// Reads a number within its range, or the default.
    pub(super) fn limit(
        &mut self,
        param: &str,
        given: Option<i32>,
        allowed: RangeInclusive<i32>,
        default: i32,
    ) -> usize {
        let value = given.unwrap_or(default);
        if !allowed.contains(&value) {
            self.reject(param, format!("must be from {} to {}", allowed.start(), allowed.end()));
        }
        usize::try_from(value).unwrap_or_default()
    }

    /// Ends the checks.
    ///
    /// # Errors
    /// Fails with `VALIDATION_FAILED`, which names all bad fields.
    pub(super) fn finish(self) -> Result<()> {
        if self.errors.is_empty() { Ok(()) } else { Err(ApiError::validation(&self.errors).into()) }
    }
}

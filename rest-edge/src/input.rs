//! The declared parameters and fields of requests, and their readers. The API's description uses the declarations too.
//! The edge checks forms and types. Core checks ranges and lengths, which the declarations only describe.

mod body;
mod query;

use thesis_proto::{error::FieldError, names, near, v1};

pub(crate) use self::{
    body::JsonBody,
    query::{QueryString, has_key, path_text},
};

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    /// The text of the description.
    pub(crate) about: &'static str,
    /// A working value, for requests of the reference that need one.
    pub(crate) example: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// Text with its minimum and maximum length in characters.
    Text(usize, usize),
    /// Text or null, with its maximum length in characters.
    NullableText(usize),
    Time,
    /// A number or null.
    NullableNumber,
    /// A day, such as `2026-01-31`.
    Date,
    /// True or false.
    Flag,
    /// A whole number with minimum, maximum and default.
    Integer(i32, i32, i32),
    OneOf(fn() -> Vec<&'static str>),
    /// Comma-separated texts.
    Texts,
    SomeOf(fn() -> Vec<&'static str>),
    /// The speed of a replay: `max`, or a number.
    Speed,
    /// Searches. The parameter is repeated for each.
    Searches,
    /// Event types with their minimum and maximum number.
    EventTypeList(usize, usize),
    Filters,
    /// Texts by name: the headers of a new webhook.
    Headers,
    /// Texts by name, or null for a header to remove.
    HeaderChanges,
}

impl Kind {
    /// True if a query may have several values, separated by commas.
    pub(crate) const fn is_list(&self) -> bool {
        matches!(self, Self::Texts | Self::SomeOf(_))
    }
}

impl Param {
    pub(crate) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: false, about, example: None }
    }

    pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: true, about, example: None }
    }

    /// Adds a value that works in the sandbox. The reference fills in every example, so optional parameters have one
    /// only if a request needs it.
    pub(crate) const fn example(mut self, value: &'static str) -> Self {
        self.example = Some(value);
        self
    }

    pub(crate) const LIMIT: Self = Self::new("limit", Kind::Integer(1, 100, 25), "Rows of a page");

    pub(crate) const CURSOR: Self =
        Self::new("cursor", Kind::Text(1, 512), "`next_cursor` of the previous page; opaque");

    pub(crate) const TYPES: Self = Self::new(
        "types",
        Kind::SomeOf(|| enum_texts(names::EVENT_TYPES)),
        "Comma-separated event types; all but those of alerts unless given",
    );

    pub(crate) const TOKENS: Self =
        Self::new("token", Kind::Texts, "Comma-separated tokens: `$SYMBOL`, address, `chain:address`, `tk_` id");

    pub(crate) const HANDLES: Self = Self::new("handle", Kind::Texts, "Comma-separated handles");

    pub(crate) const CHAINS: Self = Self::new("chain", Kind::Texts, "Comma-separated chains");

    pub(crate) const SEARCHES: Self = Self::new(
        "text",
        Kind::Searches,
        "Words of a thesis, with the syntax of the search; may be given several times, and one must match",
    );
}

/// A response names at most this many bad fields.
const MAX_REPORTED: usize = 40;

const NOT_A_SPEED: &str = "must be max, or a number from 0.1 to 3600";

const NOT_A_TIME: &str = "must be an ISO 8601 date-time such as 2026-01-31T12:00:00Z";

#[derive(Debug, Default)]
struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Adds a bad field with the first rule that it breaks, up to `MAX_REPORTED` fields.
    fn add(&mut self, param: impl Into<String>, message: impl Into<String>) {
        let error = FieldError::new(param, message);
        if self.takes(&error.param) {
            self.0.push(error);
        }
    }

    /// True if an error of this field would be kept. A message with a suggestion is expensive, and a request can have
    /// thousands of bad values.
    fn takes(&self, param: &str) -> bool {
        self.0.len() < MAX_REPORTED && self.0.iter().all(|known| known.param != param)
    }

    /// Adds an unknown field, with the most similar known one.
    fn add_unknown<'a>(&mut self, param: &str, known: impl IntoIterator<Item = &'a str>) {
        if !self.takes(param) {
            return;
        }
        let rule = match near::nearest(param, known) {
            Some(meant) => format!("unknown; did you mean `{meant}`?"),
            None => "unknown; leave it out".to_owned(),
        };
        self.add(param, rule);
    }
}

/// Merges the bad fields that core and the edge found, each once, in the order of their declaration. The path parameter
/// comes first, undeclared names come last. Core's errors on fields that the edge could not read are left out.
pub(crate) fn all_errors(params: &[Param], unread: &[FieldError], found: Vec<FieldError>) -> Vec<FieldError> {
    let is_within =
        |name: &str, outer: &str| name.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let place = |error: &FieldError| params.iter().position(|param| is_within(&error.param, param.name));
    let found = found.into_iter().filter(|error| !unread.iter().any(|own| is_within(&error.param, &own.param)));
    let found = found.map(|error| (place(&error).map_or(0, |place| place + 1), error));
    let own = unread.iter().map(|error| (place(error).map_or(usize::MAX, |place| place + 1), error.clone()));
    let mut all: Vec<_> = found.chain(own).collect();
    all.sort_by_key(|(place, _)| *place);
    all.dedup_by(|(_, error), (_, first)| error.param == first.param);
    all.truncate(MAX_REPORTED);
    all.into_iter().map(|(_, error)| error).collect()
}

pub(crate) fn enum_texts<E>(table: &[(E, &'static str)]) -> Vec<&'static str> {
    table.iter().map(|(_, text)| *text).collect()
}

/// Reads values of an enum. Other texts become errors.
fn some_of<'a, E: Into<i32>>(
    name: &str,
    given: impl Iterator<Item = &'a str>,
    parse: impl Fn(&str) -> Option<E>,
    known: fn() -> Vec<&'static str>,
    errors: &mut FieldErrors,
) -> Vec<i32> {
    let mut values = Vec::new();
    for text in given {
        match parse(text) {
            Some(value) => values.push(value.into()),
            None if errors.takes(name) => errors.add(name, no_value("must be of", text, &known())),
            None => {}
        }
    }
    values
}

/// The rule that an unknown value breaks, with the most similar known value.
fn no_value(rule: &str, given: &str, known: &[&str]) -> String {
    near::with_nearest(&format!("{rule}: {}", known.join(", ")), given, known.iter().copied())
}

/// Turns empty filters into none.
fn some_filters(filters: v1::EventFilters) -> Option<v1::EventFilters> {
    (filters != v1::EventFilters::default()).then_some(filters)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn only_reported_errors_cost_a_suggestion() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let known = || {
            CALLS.fetch_add(1, Ordering::Relaxed);
            vec!["up"]
        };
        let mut errors = FieldErrors::default();
        let values = some_of("sort", ["a"; 1_000].into_iter(), |_| None::<i32>, known, &mut errors);
        assert_eq!((values, CALLS.load(Ordering::Relaxed)), (Vec::new(), 1));
        for number in 0..1_000 {
            errors.add_unknown(&format!("x{number}"), known());
        }
        let mut compared = 0;
        errors.add_unknown("more", ["up"].into_iter().inspect(|_| compared += 1));
        assert_eq!((errors.0.len(), compared), (MAX_REPORTED, 0));
    }
}

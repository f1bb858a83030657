//! The declared parameters and fields of requests, which also make the API's description, and their readers. The edge
//! reads forms and types. Core judges ranges and lengths, which are only described here.

mod body;
mod query;

use thesis_proto::{error::FieldError, names, near, v1};

pub(crate) use self::{
    body::JsonBody,
    query::{QueryString, has_key, path_text},
};

/// A declared query parameter, header or body field.
#[derive(Debug)]
pub(crate) struct Param {
    /// Its name on the wire.
    pub(crate) name: &'static str,
    /// Its form.
    pub(crate) kind: Kind,
    /// Whether a request must have it.
    pub(crate) required: bool,
    /// Its meaning.
    pub(crate) about: &'static str,
    /// A value that works, for those who try a request that cannot do without it.
    pub(crate) example: Option<&'static str>,
}

/// The form of a parameter or field.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Text, with its bounds in characters.
    Text(usize, usize),
    /// Text or null.
    NullableText(usize),
    /// An ISO 8601 time.
    Time,
    /// A whole number with its bounds and default.
    Integer(i32, i32, i32),
    /// One of these texts.
    OneOf(fn() -> Vec<&'static str>),
    /// Texts, comma-separated.
    Texts,
    /// Several of these texts, comma-separated.
    SomeOf(fn() -> Vec<&'static str>),
    /// Event types, with the bounds of their number.
    EventTypeList(usize, usize),
    /// The filters of an event.
    Filters,
}

impl Kind {
    /// Whether several values may be given in a query, with commas between them.
    pub(crate) const fn is_list(&self) -> bool {
        matches!(self, Self::Texts | Self::SomeOf(_))
    }
}

impl Param {
    /// An optional parameter.
    pub(crate) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: false, about, example: None }
    }

    /// A parameter that must be there.
    pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: true, about, example: None }
    }

    /// The parameter with a value that works in the sandbox. Swagger UI sends every example, so that optional parameters
    /// have one only where a request needs it.
    pub(crate) const fn example(mut self, value: &'static str) -> Self {
        self.example = Some(value);
        self
    }

    /// Page size.
    pub(crate) const LIMIT: Self = Self::new("limit", Kind::Integer(1, 100, 25), "Rows of a page");

    /// Page cursor.
    pub(crate) const CURSOR: Self =
        Self::new("cursor", Kind::Text(1, 512), "`next_cursor` of the previous page; opaque");

    /// Event types.
    pub(crate) const TYPES: Self =
        Self::new("types", Kind::SomeOf(|| texts(names::EVENT_TYPES)), "Comma-separated event types; all unless given");

    /// Tokens of events.
    pub(crate) const TOKENS: Self =
        Self::new("token", Kind::Texts, "Comma-separated tokens: `$SYMBOL`, address, `chain:address`, `tk_` id");

    /// Handles of events.
    pub(crate) const HANDLES: Self = Self::new("handle", Kind::Texts, "Comma-separated handles");

    /// Chains of events.
    pub(crate) const CHAINS: Self = Self::new("chain", Kind::Texts, "Comma-separated chains");
}

/// Most bad fields that one answer names.
const MAX_REPORTED: usize = 40;

const NOT_A_TIME: &str = "must be an ISO 8601 date-time such as 2026-01-31T12:00:00Z";

/// Bad fields.
#[derive(Debug, Default)]
struct Errors(Vec<FieldError>);

impl Errors {
    /// Notes a bad field and the first rule it breaks, as long as the answer has room for more.
    fn add(&mut self, param: impl Into<String>, message: impl Into<String>) {
        let error = FieldError::new(param, message);
        if self.0.len() < MAX_REPORTED && self.0.iter().all(|known| known.param != error.param) {
            self.0.push(error);
        }
    }

    /// Notes a field that is not among the known ones, and which of them may be meant.
    fn add_unknown<'a>(&mut self, param: &str, known: impl IntoIterator<Item = &'a str>) {
        let rule = match near::nearest(param, known) {
            Some(meant) => format!("unknown; did you mean `{meant}`?"),
            None => "unknown; leave it out".to_owned(),
        };
        self.add(param, rule);
    }
}

/// All bad fields of a request, found by core and by the edge, each once, in the order of their declaration. The path's
/// parameter is first, undeclared names are last. Core's errors on fields that the edge could not read are left out.
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

/// The names in an enum's table.
pub(crate) fn texts<E>(table: &[(E, &'static str)]) -> Vec<&'static str> {
    table.iter().map(|(_, text)| *text).collect()
}

/// Reads values of an enum; other texts are noted as errors.
fn some_of<'a, E: Into<i32>>(
    name: &str,
    given: impl Iterator<Item = &'a str>,
    parse: impl Fn(&str) -> Option<E>,
    known: fn() -> Vec<&'static str>,
    errors: &mut Errors,
) -> Vec<i32> {
    let mut values = Vec::new();
    for text in given {
        match parse(text) {
            Some(value) => values.push(value.into()),
            None => errors.add(name, no_value("must be of", text, &known())),
        }
    }
    values
}

/// The rule that a value breaks which is not among the known ones, and which of them may be meant.
fn no_value(rule: &str, given: &str, known: &[&str]) -> String {
    near::with_nearest(&format!("{rule}: {}", known.join(", ")), given, known.iter().copied())
}

/// Filters with nothing in them are none.
fn some_filters(filters: v1::EventFilters) -> Option<v1::EventFilters> {
    (filters != v1::EventFilters::default()).then_some(filters)
}

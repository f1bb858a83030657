//! The query string of a request.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use prost_types::Timestamp;
use thesis_proto::{
    error::{ErrorCode, FieldError},
    names,
    time::parse_iso8601,
    v1,
};

use super::{FieldErrors, Kind, NOT_A_SPEED, NOT_A_TIME, Param, no_value, some_filters, some_of};
use crate::answer::Failure;

/// True if the query contains an API key. The edge refuses it before any other check.
pub(crate) fn has_key(query: &str) -> bool {
    query.split('&').any(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        matches!(&*Cow::from(percent_decode(name.as_bytes())), b"api_key" | b"key")
    })
}

fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(Cow::Borrowed(raw));
    }
    let spaced = raw.replace('+', " ");
    path_text(&spaced).map(|text| Cow::Owned(text.into_owned()))
}

/// Decodes a segment of a path, in which `+` stays `+`.
pub(crate) fn path_text(raw: &str) -> Option<Cow<'_, str>> {
    let broken = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if raw.split('%').skip(1).any(broken) {
        return None;
    }
    percent_decode(raw.as_bytes()).decode_utf8().ok()
}

pub(crate) struct QueryString<'a> {
    params: &'static [Param],
    values: Vec<(&'static str, Cow<'a, str>)>,
    /// Undeclared names.
    unknown: Vec<Cow<'a, str>>,
    errors: FieldErrors,
}

impl<'a> QueryString<'a> {
    pub(crate) fn read(params: &'static [Param], raw: &'a str) -> Result<Self, Failure> {
        let mut query = Self { params, values: Vec::new(), unknown: Vec::new(), errors: FieldErrors::default() };
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(Failure::shape(
                    ErrorCode::InvalidRequest,
                    "the query string's percent-encoding is broken; write each % as %25",
                ));
            };
            let Some(param) = params.iter().find(|param| param.name == name) else {
                query.unknown.push(name);
                continue;
            };
            let is_repeated = query.values.iter().any(|(seen, _)| *seen == param.name);
            if is_repeated && !matches!(param.kind, Kind::Searches) {
                let how = if param.kind.is_list() { ", with commas between its values" } else { "" };
                query.errors.add(param.name, format!("must be given once{how}"));
            } else {
                query.values.push((param.name, value));
            }
        }
        Ok(query)
    }

    fn take(&mut self, name: &'static str) -> Option<Cow<'a, str>> {
        debug_assert!(self.params.iter().any(|param| param.name == name), "{name} is not declared");
        let index = self.values.iter().position(|(seen, _)| *seen == name)?;
        Some(self.values.swap_remove(index).1)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        self.take(name).map(Cow::into_owned)
    }

    pub(crate) fn time(&mut self, name: &'static str) -> Option<Timestamp> {
        let text = self.take(name)?;
        let time = parse_iso8601(&text);
        if time.is_none() {
            self.errors.add(name, NOT_A_TIME);
        }
        time
    }

    /// Reads a whole number. A number outside the type becomes the nearest bound, which core's ranges exclude.
    pub(crate) fn integer(&mut self, name: &'static str) -> Option<i32> {
        let text = self.take(name)?;
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            self.errors.add(name, "must be a whole number");
            return None;
        }
        let furthest = if text.starts_with('-') { i32::MIN } else { i32::MAX };
        Some(text.parse().unwrap_or(furthest))
    }

    /// Reads the speed of a replay; none for `max`.
    pub(crate) fn speed(&mut self, name: &'static str) -> Option<f64> {
        let text = self.take(name).filter(|text| text != "max")?;
        let speed = text.parse::<f64>().ok().filter(|speed| speed.is_finite());
        if speed.is_none() {
            self.errors.add(name, NOT_A_SPEED);
        }
        speed
    }

    /// Reads one of the declared values.
    pub(crate) fn one_of<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.take(name)?;
        let value = parse(&text);
        if value.is_none() {
            self.errors.add(name, no_value("must be one of", &text, &self.known(name)()));
        }
        value
    }

    /// Reads several of the declared values, separated by commas.
    pub(crate) fn some_of<E: Into<i32>>(&mut self, name: &'static str, parse: impl Fn(&str) -> Option<E>) -> Vec<i32> {
        let Some(text) = self.take(name) else {
            return Vec::new();
        };
        some_of(name, text.split(','), parse, self.known(name), &mut self.errors)
    }

    fn known(&self, name: &str) -> fn() -> Vec<&'static str> {
        match self.params.iter().find(|param| param.name == name).map(|param| &param.kind) {
            Some(Kind::OneOf(values) | Kind::SomeOf(values)) => *values,
            _ => Vec::new,
        }
    }

    pub(crate) fn event_types(&mut self, name: &'static str) -> Vec<i32> {
        self.some_of(name, names::parse_event_type)
    }

    /// Reads the filters `token`, `handle` and `chain`, each comma-separated, and `text`, which may be repeated.
    pub(crate) fn filters(&mut self) -> Option<v1::EventFilters> {
        let text = self.values.extract_if(.., |(name, _)| *name == Param::SEARCHES.name);
        let text = text.map(|(_, text)| text.into_owned()).collect();
        let mut texts =
            |name| self.take(name).map(|text| text.split(',').map(str::to_owned).collect()).unwrap_or_default();
        let (token, handle, chain) = (texts("token"), texts("handle"), texts("chain"));
        some_filters(v1::EventFilters { token, handle, chain, text })
    }

    /// Returns the bad parameters, unknown ones included.
    pub(crate) fn unread(mut self) -> Vec<FieldError> {
        for name in &self.unknown {
            self.errors.add_unknown(name, self.params.iter().map(|param| param.name));
        }
        self.errors.0
    }
}

#[cfg(test)]
mod tests {
    use super::{super::all_errors, *};

    const PARAMS: &[Param] = &[
        Param::new("q", Kind::Text(0, 9), ""),
        Param::LIMIT,
        Param::new("after", Kind::Time, ""),
        Param::new("sort", Kind::OneOf(|| vec!["up", "down"]), ""),
        Param::TYPES,
    ];

    fn bad_params(raw: &str) -> Vec<(String, String)> {
        let mut query = QueryString::read(PARAMS, raw).unwrap();
        query.text("q");
        query.integer("limit");
        query.event_types("types");
        query.time("after");
        query.one_of("sort", |text| (text == "up").then_some(()));
        let errors = all_errors(PARAMS, &query.unread(), Vec::new());
        errors.into_iter().map(|error| (error.param, error.message)).collect()
    }

    #[test]
    fn keys_are_found_however_they_are_written() {
        for query in ["key=1", "a=1&api_key", "%6bey=1", "api%5Fkey=1", "a=%zz&key="] {
            assert!(has_key(query), "{query}");
        }
        for query in ["", "monkey=1", "q=key", "Key=1", "keys=1"] {
            assert!(!has_key(query), "{query}");
        }
    }

    #[test]
    fn each_search_is_a_parameter_of_its_own() {
        const FILTERS: &[Param] = &[Param::TOKENS, Param::HANDLES, Param::CHAINS, Param::SEARCHES];
        let mut query = QueryString::read(FILTERS, "text=a,b&token=RUN,SEEK&text=c+d").unwrap();
        let filters = query.filters().unwrap();
        assert_eq!(
            (filters.text, filters.token),
            (vec!["a,b".to_owned(), "c d".to_owned()], vec!["RUN".to_owned(), "SEEK".to_owned()])
        );
        assert!(query.unread().is_empty());
    }

    #[test]
    fn values_are_decoded() {
        let mut query = QueryString::read(PARAMS, "q=%24RUN+%F0%9F%9A%80&x=1&x=2").unwrap();
        assert_eq!(query.text("q").unwrap(), "$RUN 🚀");
        assert_eq!(QueryString::read(PARAMS, "q=").unwrap().text("q").unwrap(), "");
    }

    #[test]
    fn broken_escapes_are_refused_as_a_whole() {
        for raw in ["q=%", "q=%f", "q=%zz", "q=%ff", "%ff=1", "unknown=%+1"] {
            assert!(QueryString::read(PARAMS, raw).is_err(), "{raw}");
        }
    }

    #[test]
    fn integers_beyond_their_type_go_to_the_nearest() {
        let integer = |raw| QueryString::read(PARAMS, raw).unwrap().integer("limit");
        assert_eq!(integer("limit=0012"), Some(12));
        assert_eq!(integer("limit=99999999999999999999"), Some(i32::MAX));
        assert_eq!(integer("limit=-99999999999999999999"), Some(i32::MIN));
    }

    #[test]
    fn a_speed_is_a_number_or_the_highest() {
        const SPEED: &[Param] = &[Param::new("speed", Kind::Speed, "")];
        let read = |raw| {
            let mut query = QueryString::read(SPEED, raw).unwrap();
            (query.speed("speed"), query.unread().len())
        };
        // Core checks the range.
        for (raw, expected) in [("", None), ("speed=max", None), ("speed=0.5", Some(0.5)), ("speed=-1", Some(-1.0))] {
            assert_eq!(read(raw), (expected, 0), "{raw}");
        }
        for raw in ["speed=", "speed=fast", "speed=Max", "speed=inf", "speed=NaN", "speed=1x"] {
            assert_eq!(read(raw), (None, 1), "{raw}");
        }
    }

    #[test]
    fn every_bad_parameter_is_reported_in_the_declared_order() {
        let params = |raw| bad_params(raw).into_iter().map(|(param, _)| param).collect::<Vec<_>>();
        assert_eq!(
            params("types=a,b,thesis.created&sort=left&after=yesterday&limit=1.5&q=1&q=2&q=3"),
            ["q", "limit", "after", "sort", "types"]
        );
        assert_eq!(params("limit=&sort="), ["limit", "sort"]);
        assert_eq!(bad_params("sort=left"), [("sort".to_owned(), "must be one of: up, down".to_owned())]);
        let near = "must be one of: up, down; did you mean `down`?".to_owned();
        assert_eq!(bad_params("sort=Dwon"), [("sort".to_owned(), near)]);
        let unknown = bad_params("limits=1&x&q=1&x=2&limits=3&limit=x&%73%6Frts=1");
        let said = |param: &str, message: &str| (param.to_owned(), message.to_owned());
        let expected = [
            said("limit", "must be a whole number"),
            said("limits", "unknown; did you mean `limit`?"),
            said("x", "unknown; leave it out"),
            said("sorts", "unknown; did you mean `sort`?"),
        ];
        assert_eq!(unknown, expected);
        let many: Vec<String> = (0..999).map(|number| format!("x{number}")).collect();
        assert_eq!(bad_params(&format!("{}&limit=x", many.join("&"))).len(), 40);
        assert!(params("limit=5&sort=up&types=thesis.created&after=2026-01-01T00:00:00Z").is_empty());
    }
}

//! Single fields of an object of the upstream. A wrong required field refuses the object; a wrong optional field is
//! null.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use thesis_proto::time::{parse_iso8601, to_millis};
use url::Url;

use super::Refusal;

/// Allowed number of characters of ids, handles and symbols.
const NAME: RangeInclusive<usize> = 1..=64;
/// Allowed number of characters of a chain or network.
const CHAIN: RangeInclusive<usize> = 1..=32;
/// Allowed number of characters of an address.
const ADDRESS: RangeInclusive<usize> = 1..=140;
/// Maximum number of characters of URLs, and of texts that people write about themselves.
const MAX_LONG: usize = 2_048;
/// The largest number that every reader of JSON takes exactly.
const MAX_COUNT: i64 = (1 << 53) - 1;
/// Maximum time by which a date may lie ahead, in milliseconds.
const MAX_AHEAD_MS: i64 = 5 * 60_000;

pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    pub(super) now_ms: i64,
}

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Value, now_ms: i64) -> Result<Self, Refusal> {
        value.as_object().map(|object| Self { object, now_ms }).ok_or(Refusal::Malformed)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name)
    }

    /// A text of any length.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// A required text in the form that `form` returns.
    pub(super) fn required(&self, name: &'static str, form: fn(&str) -> Option<&str>) -> Result<String, Refusal> {
        self.text(name).and_then(form).map(str::to_owned).ok_or(Refusal::Field(name))
    }

    /// A time in unix milliseconds.
    pub(super) fn time(&self, name: &'static str) -> Result<i64, Refusal> {
        let time = self.text(name).and_then(parse_iso8601).as_ref().map(to_millis);
        match time.filter(|time| *time >= 0) {
            None => Err(Refusal::Field(name)),
            Some(time) if time > self.now_ms.saturating_add(MAX_AHEAD_MS) => Err(Refusal::Ahead),
            Some(time) => Ok(time),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// A whole number from 0. `3.0` is not one.
    pub(super) fn count(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64().filter(|count| (0..=MAX_COUNT).contains(count))
    }

    /// An optional text of one line.
    pub(super) fn line(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| is_line(text, &(0..=MAX_LONG))).map(str::to_owned)
    }

    /// An optional text of several lines.
    pub(super) fn lines(&self, name: &str) -> Option<String> {
        let is_right = |text: &&str| {
            text.chars().count() <= MAX_LONG
                && !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        };
        self.text(name).filter(is_right).map(str::to_owned)
    }

    /// An optional http or https URL.
    pub(super) fn url(&self, name: &str) -> Option<String> {
        let is_right = |text: &&str| {
            is_word(text, &(1..=MAX_LONG)) && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        };
        self.text(name).filter(is_right).map(str::to_owned)
    }
}

fn is_line(text: &str, allowed: &RangeInclusive<usize>) -> bool {
    allowed.contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

fn is_word(text: &str, allowed: &RangeInclusive<usize>) -> bool {
    is_line(text, allowed) && !text.chars().any(char::is_whitespace)
}

pub(super) fn id(text: &str) -> Option<&str> {
    is_word(text, &NAME).then_some(text)
}

/// A handle without its `@`. A second `@` is wrong: it would name another profile.
pub(super) fn handle(text: &str) -> Option<&str> {
    let handle = text.strip_prefix('@').unwrap_or(text);
    (is_word(handle, &NAME) && !handle.starts_with('@')).then_some(handle)
}

/// A chain's name. It has no `:`, which follows it in a reference to a token.
pub(super) fn chain(text: &str) -> Option<&str> {
    (is_word(text, &CHAIN) && !text.contains(':')).then_some(text)
}

pub(super) fn network(text: &str) -> Option<&str> {
    is_word(text, &CHAIN).then_some(text)
}

pub(super) fn address(text: &str) -> Option<&str> {
    is_word(text, &ADDRESS).then_some(text)
}

/// A symbol without its `$`. Real symbols have spaces.
pub(super) fn symbol(text: &str) -> Option<&str> {
    let symbol = text.strip_prefix('$').unwrap_or(text);
    (is_line(symbol, &NAME) && !matches!(symbol.trim(), "" | "$")).then_some(symbol)
}

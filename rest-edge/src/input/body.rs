//! Reads the JSON body of a request, field by field, and collects the errors of all fields.
//!
//! A field that is given twice is an error, so the body's members are read as a list, not as a map.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_TYPE};
use prost_types::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value};
use thesis_proto::{
    error::{ErrorCode, FieldError},
    json::untrusted,
    names,
    time::parse_iso8601,
    v1,
};

use super::{FieldErrors, NOT_A_SPEED, NOT_A_TIME, Param, some_filters, some_of};
use crate::answer::Failure;

pub(crate) struct JsonBody {
    params: &'static [Param],
    fields: Map<String, Value>,
    errors: FieldErrors,
}

impl JsonBody {
    /// Reads a body. No body counts as an empty object.
    pub(crate) fn read(params: &'static [Param], headers: &HeaderMap, body: &Bytes) -> Result<Self, Failure> {
        let mut read = Self { params, fields: Map::new(), errors: FieldErrors::default() };
        if body.is_empty() {
            return Ok(read);
        }
        if !is_json(headers) {
            return Err(Failure::shape(
                ErrorCode::InvalidRequest,
                "the body's Content-Type is not JSON; send it as Content-Type: application/json",
            ));
        }
        if untrusted::check(body).is_err_and(|error| error.is_data()) {
            return Err(Failure::shape(ErrorCode::InvalidRequest, "the body has a field with a reserved name"));
        }
        match serde_json::from_slice(body) {
            Ok(ObjectMembers(members)) => members.into_iter().for_each(|(name, value)| read.add(name, value)),
            Err(error) if error.is_data() => {
                return Err(Failure::fields(vec![FieldError::new("body", "must be a JSON object")]));
            }
            Err(_) => {
                return Err(Failure::shape(
                    ErrorCode::InvalidRequest,
                    "the body is not valid JSON; send one JSON object in UTF-8",
                ));
            }
        }
        Ok(read)
    }

    /// Reads a JSON object; none if the text is no object.
    pub(crate) fn object(params: &'static [Param], text: &[u8]) -> Option<Self> {
        let ObjectMembers(members) = untrusted::read(text).ok()?;
        let mut read = Self { params, fields: Map::new(), errors: FieldErrors::default() };
        members.into_iter().for_each(|(name, value)| read.add(name, value));
        Some(read)
    }

    fn add(&mut self, name: String, value: Value) {
        if self.fields.contains_key(&name) {
            self.errors.add(&name, "must be given once");
        } else {
            self.fields.insert(name, value);
        }
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        debug_assert!(self.params.iter().any(|param| param.name == name), "{name} is not declared");
        self.fields.remove(name)
    }

    /// Takes a field's value. Null counts as absent.
    fn given(&mut self, name: &'static str) -> Option<Value> {
        self.take(name).filter(|value| !value.is_null())
    }

    /// The names of the declared fields that are present, even with null.
    pub(crate) fn names(&self) -> Vec<String> {
        let given = self.params.iter().filter(|param| self.fields.contains_key(param.name));
        given.map(|param| param.name.to_owned()).collect()
    }

    /// Adds an error if the field is null.
    pub(crate) fn refuse_null(&mut self, name: &'static str) {
        if self.fields.get(name).is_some_and(Value::is_null) {
            self.errors.add(name, "must not be null");
        }
    }

    /// Reads a text. Another value becomes an empty text, so that core does not count it as absent.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        match self.given(name)? {
            Value::String(text) => Some(text),
            _ => self.wrong(name, "must be a string").or(Some(String::new())),
        }
    }

    /// Reads a text or null.
    pub(crate) fn nullable_text(&mut self, name: &'static str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            Value::Null => None,
            _ => self.wrong(name, "must be a string or null"),
        }
    }

    pub(crate) fn time(&mut self, name: &'static str) -> Option<Timestamp> {
        let time = self.given(name)?.as_str().and_then(parse_iso8601);
        if time.is_none() {
            self.errors.add(name, NOT_A_TIME);
        }
        time
    }

    /// Reads a whole number. A number outside the type becomes the nearest bound, which core's ranges exclude.
    pub(crate) fn integer(&mut self, name: &'static str) -> Option<i32> {
        match self.given(name)?.as_f64() {
            Some(number) if number.fract() == 0.0 => Some(number as i32),
            _ => self.wrong(name, "must be a whole number"),
        }
    }

    /// Reads the speed of a replay; none for `max`.
    pub(crate) fn speed(&mut self, name: &'static str) -> Option<f64> {
        let speed = self.given(name).filter(|speed| speed != "max")?;
        speed.as_f64().or_else(|| self.wrong(name, NOT_A_SPEED))
    }

    /// Reads a number or null. Another value becomes no number, so that core does not count it as absent.
    pub(crate) fn nullable_number(&mut self, name: &'static str) -> Option<f64> {
        let value = self.given(name)?;
        value.as_f64().or_else(|| self.wrong(name, "must be a number or null").or(Some(f64::NAN)))
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Option<bool> {
        match self.given(name)? {
            Value::Bool(flag) => Some(flag),
            _ => self.wrong(name, "must be true or false"),
        }
    }

    pub(crate) fn one_of<E: Into<i32>>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<E>,
        known: fn() -> Vec<&'static str>,
    ) -> Option<i32> {
        let text = self.text(name)?;
        let parse_known = |text: &str| parse(text).filter(|_| known().contains(&text));
        some_of(name, [text.as_str()].into_iter(), parse_known, known, &mut self.errors).pop()
    }

    pub(crate) fn event_types(&mut self, name: &'static str) -> Vec<i32> {
        let Some(value) = self.given(name) else {
            return Vec::new();
        };
        let texts = self.texts(name, value);
        let known = || super::enum_texts(names::EVENT_TYPES);
        some_of(name, texts.iter().map(String::as_str), names::parse_event_type, known, &mut self.errors)
    }

    pub(crate) fn filters(&mut self, name: &'static str) -> Option<v1::EventFilters> {
        let Value::Object(dimensions) = self.given(name)? else {
            return self.wrong(name, "must be an object");
        };
        let mut filters = v1::EventFilters::default();
        for (dimension, value) in dimensions {
            let field = match dimension.as_str() {
                "token" => &mut filters.token,
                "handle" => &mut filters.handle,
                "chain" => &mut filters.chain,
                "text" => &mut filters.text,
                _ => {
                    let known = ["token", "handle", "chain", "text"].map(|known| format!("{name}.{known}"));
                    let known = known.iter().map(String::as_str);
                    self.errors.add_unknown(&format!("{name}.{dimension}"), known);
                    continue;
                }
            };
            *field = self.texts(&format!("{name}.{dimension}"), value);
        }
        some_filters(filters)
    }

    /// Reads headers by name. If null is allowed, it is a header without a value.
    pub(crate) fn headers(&mut self, name: &'static str, may_be_null: bool) -> Vec<v1::WebhookHeader> {
        let fields = match self.given(name) {
            Some(Value::Object(fields)) => fields,
            Some(_) => {
                self.errors.add(name, "must be an object");
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut headers = Vec::new();
        for (header, value) in fields {
            match value {
                Value::String(text) => headers.push(v1::WebhookHeader { name: header, value: Some(text) }),
                Value::Null if may_be_null => headers.push(v1::WebhookHeader { name: header, value: None }),
                _ => {
                    let rule = if may_be_null { "must be a string or null" } else { "must be a string" };
                    self.errors.add(format!("{name}.{header}"), rule);
                }
            }
        }
        headers
    }

    fn texts(&mut self, name: &str, value: Value) -> Vec<String> {
        let texts = match value {
            Value::Array(values) => values.into_iter().map(|value| match value {
                Value::String(text) => Some(text),
                _ => None,
            }),
            _ => {
                self.errors.add(name, "must be an array of strings");
                return Vec::new();
            }
        };
        texts.collect::<Option<_>>().unwrap_or_else(|| {
            self.errors.add(name, "must be an array of strings");
            Vec::new()
        })
    }

    fn wrong<T>(&mut self, name: &str, message: &str) -> Option<T> {
        self.errors.add(name, message);
        None
    }

    /// Returns the bad fields, unknown ones included.
    pub(crate) fn unread(mut self) -> Vec<FieldError> {
        for name in self.fields.keys() {
            self.errors.add_unknown(name, self.params.iter().map(|param| param.name));
        }
        self.errors.0
    }
}

struct ObjectMembers(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for ObjectMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfObject;

        impl<'de> Visitor<'de> for OfObject {
            type Value = ObjectMembers;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(ObjectMembers(members))
            }
        }

        deserializer.deserialize_map(OfObject)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::{
        super::{Kind, Param, all_errors},
        *,
    };

    const PARAMS: &[Param] = &[
        Param::required("url", Kind::Text(1, 9), ""),
        Param::required("events", Kind::EventTypeList(1, 10), ""),
        Param::new("filters", Kind::Filters, ""),
        Param::new("description", Kind::NullableText(9), ""),
    ];

    fn read(kind: &'static str, text: &str) -> Result<JsonBody, Failure> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        JsonBody::read(PARAMS, &headers, &Bytes::copy_from_slice(text.as_bytes()))
    }

    fn bad_fields(text: &str) -> Vec<String> {
        let mut body = read("application/json", text).unwrap();
        body.text("url");
        body.event_types("events");
        body.filters("filters");
        body.nullable_text("description");
        all_errors(PARAMS, &body.unread(), Vec::new()).into_iter().map(|error| error.param).collect()
    }

    #[test]
    fn every_bad_field_is_reported_in_the_declared_order() {
        let bad =
            r#"{"x": 1, "description": 1, "filters": {"token": "a", "y": []}, "events": ["no"], "url": 7, "url": 8}"#;
        let mut params = bad_fields(bad);
        params[2..4].sort();
        assert_eq!(params, ["url", "events", "filters.token", "filters.y", "description", "x"]);
        assert_eq!(bad_fields(r#"{"events": [1], "filters": {"chain": [null]}}"#), ["events", "filters.chain"]);
    }

    #[test]
    fn values_that_would_exhaust_the_stack_are_refused() {
        let nested = include_str!("../../../docs/receipts/unreadable/raw-values-in-each-other.json");
        let refusal = read("application/json", nested).err().unwrap();
        assert!(format!("{refusal:?}").contains("reserved name"), "{refusal:?}");
        assert!(JsonBody::object(PARAMS, nested.as_bytes()).is_none());
        assert!(read("application/json", r#"{"url":{"$serde_json::private::RawValue":"\"a\""}}"#).is_err());
    }

    #[test]
    fn good_and_missing_fields_pass() {
        assert!(bad_fields("").is_empty());
        let good = r#"{"url": "u", "events": ["thesis.created"], "filters": {"token": ["$RUN"]}, "description": null}"#;
        assert!(bad_fields(good).is_empty());
        // Null counts as absent.
        assert!(bad_fields(r#"{"url": null, "events": null, "filters": null, "description": null}"#).is_empty());
        assert_eq!(bad_fields(r#"{"zzz": null}"#), ["zzz"]);
    }

    #[test]
    fn what_is_not_json_is_refused_as_a_whole() {
        assert!(read("application/json; charset=utf-8", "{}").is_ok());
        assert!(read("text/plain", "{}").is_err());
        for broken in ["{", "{} {}", "[]", "7", "null", r#"{"a": [1}"#] {
            assert!(read("application/json", broken).is_err(), "{broken}");
        }
        assert!(read("application/json", "{\"a\": \"\\ud800\"}").is_err());
        assert!(read("text/plain", "").is_ok());
    }
}

//! The fields of a JSON schema as a Markdown list, in the order in which the service writes them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

/// Most levels of objects inside objects.
const MAX_DEPTH: usize = 6;
/// Most values that the type of a field lists.
const MAX_VALUES: usize = 12;

/// The fields of an object with their values, in their order.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }

        deserializer.deserialize_map(Reader).map(Self)
    }
}

/// The fields of an object; none of another value.
fn entries(raw: &RawValue) -> Vec<(String, &RawValue)> {
    serde_json::from_str::<Entries<'_>>(raw.get()).map(|entries| entries.0).unwrap_or_default()
}

/// The first element of an array.
fn first(raw: &RawValue) -> Option<&RawValue> {
    serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok()?.into_iter().next()
}

/// The direction of a JSON value. A client must know what it has to send, and what it may not rely on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Response,
}

/// Lists the fields of a schema. `names` begins with those that come first; the other ones follow `example`.
pub(super) fn list(document: &Value, schema: &Value, side: Side, names: &[&str], example: Option<&RawValue>) -> String {
    let mut list = List { document, side, names, out: String::new() };
    list.add("", schema, example, 0);
    list.out
}

struct List<'a> {
    /// The description in OpenAPI.
    document: &'a Value,
    side: Side,
    names: &'a [&'a str],
    out: String,
}

impl List<'_> {
    /// Adds the fields of a value, whose own name is `prefix`.
    fn add(&mut self, prefix: &str, schema: &Value, example: Option<&RawValue>, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let schema = resolved(self.document, schema);
        if let Some(items) = schema.get("items") {
            return self.add(&format!("{prefix}[]"), items, example.and_then(first), depth + 1);
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.add(prefix, part, example, depth);
        }
        if let [only] = alternatives(schema)[..] {
            self.add(prefix, only, example, depth);
        }
        let Some(properties) = schema["properties"].as_object() else { return };
        let values = example.map(entries).unwrap_or_default();
        for name in self.ordered(properties, &values, depth) {
            let property = &properties[name];
            let full = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let is_required = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            self.line(&full, property, is_required);
            let value = values.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            self.add(&full, property, value, depth + 1);
        }
    }

    /// The names of an object's fields in their order.
    fn ordered<'b>(
        &self,
        fields: &'b Map<String, Value>,
        values: &[(String, &RawValue)],
        depth: usize,
    ) -> Vec<&'b str> {
        let first = if depth == 0 { self.names } else { &[] };
        let of_example = values.iter().map(|(name, _)| name.as_str());
        let place = |name: &str| first.iter().copied().chain(of_example.clone()).position(|known| known == name);
        let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
        names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
        names
    }

    fn line(&mut self, name: &str, schema: &Value, is_required: bool) {
        let mark = match (self.side, is_required) {
            (Side::Request, true) => ", required",
            (Side::Response, false) => ", may be absent",
            _ => "",
        };
        let about = schema["description"].as_str().or_else(|| resolved(self.document, schema)["description"].as_str());
        self.out.push_str(&item(name, &format!("{}{mark}", kind(self.document, schema)), about.unwrap_or_default()));
    }
}

/// An item of a list of fields or parameters.
pub(super) fn item(name: &str, kind: &str, about: &str) -> String {
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let point = if about.is_empty() || about.ends_with(['.', ':']) { "" } else { "." };
    format!("- `{name}` *{kind}* {about}{point}\n")
}

/// Follows the references of a schema.
pub(super) fn resolved<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    while let Some(target) = schema["$ref"].as_str().and_then(|name| document.pointer(name.strip_prefix('#')?)) {
        schema = target;
    }
    schema
}

/// The schemas of which a value has one, without null.
pub(super) fn alternatives(schema: &Value) -> Vec<&Value> {
    let all = ["oneOf", "anyOf"].into_iter().filter_map(|name| schema[name].as_array());
    all.flatten().filter(|one| one["type"] != "null").collect()
}

fn is_nullable(schema: &Value) -> bool {
    let has_null = |all: &Value, is_null: fn(&Value) -> bool| all.as_array().is_some_and(|all| all.iter().any(is_null));
    has_null(&schema["type"], |kind| kind == "null")
        || has_null(&schema["oneOf"], |one| one["type"] == "null")
        || has_null(&schema["anyOf"], |one| one["type"] == "null")
}

/// What a value may be, in Markdown.
pub(super) fn kind(document: &Value, schema: &Value) -> String {
    let target = resolved(document, schema);
    let null = if is_nullable(schema) || is_nullable(target) { " or null" } else { "" };
    let default = match &schema["default"] {
        Value::Null => String::new(),
        Value::String(text) => format!(", default `{text}`"),
        other => format!(", default `{other}`"),
    };
    format!("{}{null}{default}", bare_kind(document, target))
}

fn bare_kind(document: &Value, schema: &Value) -> String {
    if let Some(mapping) = schema["discriminator"]["mapping"].as_object() {
        return format!(
            "one of {}",
            mapping.keys().map(|name| event_link(document, name)).collect::<Vec<_>>().join(", ")
        );
    }
    if let Some(values) = schema["enum"].as_array().filter(|values| values.len() <= MAX_VALUES) {
        let values = values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`"));
        return format!("one of {}", values.collect::<Vec<_>>().join(", "));
    }
    let alternatives = alternatives(schema);
    if !alternatives.is_empty() {
        return alternatives.into_iter().map(|one| kind(document, one)).collect::<Vec<_>>().join(" or ");
    }
    if let Some(items) = schema.get("items") {
        return match &*kind(document, items) {
            "object" => "list of objects".to_owned(),
            "text" => "list of texts".to_owned(),
            other => format!("list of {other}"),
        };
    }
    simple_kind(schema)
}

/// The name of an event type, with a link to its page.
fn event_link(document: &Value, name: &str) -> String {
    document["webhooks"][name]["post"]["operationId"]
        .as_str()
        .map_or_else(|| format!("`{name}`"), |id| format!("[`{name}`]({})", super::path_of(id)))
}

fn simple_kind(schema: &Value) -> String {
    let named = |name: &str| {
        schema["type"] == name || schema["type"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let range = |least: &str, most: &str, unit: &str| match (schema[least].as_f64(), schema[most].as_f64()) {
        (Some(least), Some(most)) => format!(", {least} to {most}{unit}"),
        (Some(least), None) if least > 1.0 => format!(", at least {least}{unit}"),
        (None, Some(most)) => format!(", at most {most}{unit}"),
        _ => String::new(),
    };
    if named("string") {
        let name = match schema["format"].as_str() {
            Some("date-time") => return "time".to_owned(),
            Some("date") => return "date".to_owned(),
            Some("uri") => "URL",
            _ => "text",
        };
        return format!("{name}{}", range("minLength", "maxLength", " characters"));
    }
    for (json, name) in [("integer", "integer"), ("number", "number")] {
        if named(json) {
            return format!("{name}{}", range("minimum", "maximum", ""));
        }
    }
    // A constant's description names it.
    let name = match (&schema["const"], named("boolean")) {
        (Value::String(_), _) => "text",
        (_, true) => "true or false",
        _ => "object",
    };
    name.to_owned()
}

//! Whether a value is as a schema of the description says.

use serde_json::Value;

/// Demands that a value has the types and the fields that a schema of this document describes.
pub(super) fn assert_fits(document: &Value, schema: &Value, value: &Value, place: &str) {
    let parts = parts(document, schema, value);
    for part in &parts {
        let kinds: Vec<&str> = match &part["type"] {
            Value::String(kind) => vec![kind],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => continue,
        };
        assert!(kinds.iter().any(|kind| is_of(kind, value)), "{place}: {value} is not of {kinds:?}");
        assert!(part["const"].is_null() || part["const"] == *value, "{place}: {value} is not {}", part["const"]);
    }
    match value {
        Value::Object(fields) => {
            let is_open = parts.iter().all(|part| part["properties"].is_null())
                || parts.iter().any(|part| part["additionalProperties"] == true);
            for name in parts.iter().filter_map(|part| part["required"].as_array()).flatten() {
                assert!(fields.contains_key(name.as_str().unwrap()), "{place} lacks {name}: {value}");
            }
            for (name, field) in fields {
                let place = format!("{place}.{name}");
                let schemas: Vec<&Value> = parts.iter().filter_map(|part| part["properties"].get(name)).collect();
                assert!(is_open || !schemas.is_empty(), "{place} is not described");
                for schema in schemas {
                    assert_fits(document, schema, field, &place);
                }
            }
        }
        Value::Array(items) => {
            for schema in parts.iter().filter_map(|part| part.get("items")) {
                items.iter().for_each(|item| assert_fits(document, schema, item, &format!("{place}[]")));
            }
        }
        _ => {}
    }
}

/// The schemas that all hold for a value: this one, those that it refers to, and of alternatives the one that is meant.
fn parts<'a>(document: &'a Value, schema: &'a Value, value: &Value) -> Vec<&'a Value> {
    let mut all = vec![schema];
    if schema["$ref"].is_string() {
        all.extend(parts(document, target(document, &schema["$ref"]), value));
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        all.extend(parts(document, part, value));
    }
    let alternatives = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(property) = schema["discriminator"]["propertyName"].as_str() {
        let name = value[property].as_str().unwrap_or_default();
        let meant = &schema["discriminator"]["mapping"][name];
        assert!(alternatives.iter().any(|one| one["$ref"] == *meant), "{property} {name:?} is not described");
        all.extend(parts(document, target(document, meant), value));
    } else if !alternatives.is_empty() {
        let of_kind = alternatives.iter().filter(|one| (one["type"] == "null") == value.is_null());
        let meant = of_kind.map(|one| parts(document, one, value)).find(|parts| !contradicts(parts, value));
        all.extend(meant.unwrap_or_else(|| panic!("{value} is as no alternative of {schema} says")));
    }
    all
}

/// True if a constant of the schema differs from the value.
fn contradicts(parts: &[&Value], value: &Value) -> bool {
    let mut fields = parts.iter().filter_map(|part| part["properties"].as_object()).flatten();
    fields.any(|(name, field)| {
        let constant = field.get("const");
        constant.is_some() && value.get(name).is_some_and(|value| Some(value) != constant)
    })
}

fn target<'a>(document: &'a Value, reference: &Value) -> &'a Value {
    document.pointer(&reference.as_str().unwrap()[1..]).unwrap()
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

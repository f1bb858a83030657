//! Checks that a view and its schema agree.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The schema of a type with all that it refers to.
fn schemas<T: ToSchema>() -> Value {
    let mut all = Vec::new();
    T::schemas(&mut all);
    all.push((T::name().into_owned(), T::schema()));
    let map = all.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap()));
    Value::Object(map.collect())
}

/// Checks a value against the parts of a schema that these use.
fn fits(value: &Value, schema: &Value, all: &Value) -> bool {
    if let Some(name) = schema["$ref"].as_str() {
        return fits(value, &all[name.trim_start_matches("#/components/schemas/")], all);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        return options.iter().filter(|option| fits(value, option, all)).count() == 1;
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts.iter().all(|part| fits(value, part, all));
    }
    let of_type = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        Some("array") => value.as_array().unwrap_or(&vec![]).iter().all(|item| fits(item, &schema["items"], all)),
        Some("object") => value.is_object(),
        _ => false,
    };
    let type_fits = match &schema["type"] {
        Value::Null => true,
        Value::Array(types) => types.iter().any(of_type),
        name => of_type(name),
    };
    let enum_fits = schema["enum"].as_array().is_none_or(|values| values.contains(value));
    let required = schema["required"]
        .as_array()
        .is_none_or(|names| names.iter().all(|name| value.get(name.as_str().unwrap_or_default()).is_some()));
    let properties = schema["properties"].as_object().is_none_or(|properties| {
        properties.iter().all(|(name, schema)| value.get(name).is_none_or(|value| fits(value, schema, all)))
    });
    type_fits && enum_fits && required && properties
}

/// Pretty JSON of a view. Checks that it fits its schema, and that the schema describes each field.
pub(super) fn json<T: Serialize + ToSchema>(view: &T) -> String {
    let value = serde_json::to_value(view).unwrap();
    let all = schemas::<T>();
    let schema = &all[T::name().as_ref()];
    assert!(fits(&value, schema, &all), "{value:#} does not fit {schema:#}");
    if let Some(properties) = schema["properties"].as_object() {
        let unknown: Vec<_> =
            value.as_object().unwrap().keys().filter(|name| !properties.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} not in the schema");
    }
    serde_json::to_string_pretty(view).unwrap()
}

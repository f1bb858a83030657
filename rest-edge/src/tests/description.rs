//! The description is complete. `requests` compares it with the routes, and `examples` compares its examples with its
//! schemas.

mod examples;
mod requests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{openapi, v1::routes};

/// The description for a test URL.
pub(crate) fn document() -> Value {
    openapi("http://edge.test", 1_795_442_700_123)
}

/// Resolves a reference to a schema.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    schema["$ref"].as_str().map_or(schema, |name| document.pointer(&name[1..]).unwrap())
}

/// The properties and the required properties of an object's schema.
pub(crate) fn shape(document: &Value, schema: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let schema = resolved(document, schema);
    let (mut properties, mut required) = (BTreeSet::new(), BTreeSet::new());
    properties.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    required.extend(schema["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()));
    // The alternatives of a union all have the same properties.
    let parts = ["allOf", "oneOf"].into_iter().filter_map(|parts| schema[parts].as_array());
    for part in parts.flatten() {
        let (more, needed) = shape(document, part);
        properties.extend(more);
        required.extend(needed);
    }
    (properties, required)
}

/// All operations with method and path, including webhooks and the WebSocket.
fn everything() -> Vec<(String, Value)> {
    let document = document();
    let items = ["paths", "webhooks"].into_iter().flat_map(|section| document[section].as_object().unwrap().clone());
    let each = |(path, item): (String, Value)| {
        let methods = item.as_object().unwrap().clone();
        methods.into_iter().map(move |(method, operation)| (format!("{method} {path}"), operation))
    };
    items.flat_map(each).collect()
}

#[test]
fn the_document_is_whole() {
    fn walk(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                assert!(!fields.contains_key("prefixItems"));
                if let Some(Value::String(name)) = fields.get("$ref") {
                    assert!(document.pointer(&name[1..]).is_some(), "{name} is missing");
                }
                fields.values().for_each(|value| walk(document, value));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(document, value)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
    let operations = everything();
    let ids: BTreeSet<_> = operations.iter().map(|(_, operation)| operation["operationId"].to_string()).collect();
    assert_eq!(ids.len(), operations.len());
}

#[test]
fn every_operation_is_described() {
    let document = document();
    let tags: BTreeSet<_> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].clone().to_string()).collect();
    assert!(document["tags"].as_array().unwrap().iter().all(|tag| !tag["description"].as_str().unwrap().is_empty()));
    for (place, operation) in everything() {
        for field in ["operationId", "summary", "description"] {
            assert!(operation[field].as_str().is_some_and(|text| !text.is_empty()), "{place}: {field}");
        }
        assert!(tags.contains(&operation["tags"][0].to_string()), "{place}");
        for parameter in operation["parameters"].as_array().unwrap() {
            assert!(!parameter["description"].as_str().unwrap().is_empty(), "{place}");
        }
    }
    for route in routes().iter().filter(|route| route.operation.is_some()) {
        assert!(["standard", "heavy", "verify"].contains(&route.class), "{}", route.path);
        let known = |scope| thesis_proto::names::SCOPES.iter().any(|(name, _)| *name == scope);
        assert!(route.scope.is_none_or(known), "{}", route.path);
    }
}

#[test]
fn operations_list_the_statuses_of_the_specification() {
    let operations: BTreeMap<String, Value> = everything().into_iter().collect();
    for (place, statuses) in [
        ("get /v1/me", &[200, 401, 403, 429][..]),
        ("get /v1/profiles", &[200, 401, 403, 404, 422, 429, 503]),
        ("get /v1/profiles/{ref}", &[200, 401, 403, 404, 422, 429, 503]),
        ("get /v1/theses", &[200, 400, 401, 403, 404, 422, 429]),
        ("get /v1/theses/{id}", &[200, 401, 403, 404, 429]),
        ("post /v1/verify/thesis", &[200, 400, 401, 503]),
        ("get /v1/tokens/{ref}/activity", &[200, 401, 403, 404, 409, 422, 429]),
        ("post /v1/search/semantic", &[200, 401, 403, 404, 422, 429]),
        ("get /v1/events", &[200, 400, 401, 403, 422, 429]),
        ("get /v1/events/stream", &[200, 401, 403, 404, 422, 429, 503]),
        ("post /v1/webhooks", &[201, 400, 401, 403, 404, 422, 429]),
    ] {
        for status in statuses {
            assert!(operations[place]["responses"][status.to_string()].is_object(), "{place}: {status}");
        }
    }
}

#[test]
fn events_are_distinguished_by_their_type() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let mapping = schemas["Event"]["discriminator"]["mapping"].as_object().unwrap();
    assert_eq!(mapping.len(), thesis_proto::names::EVENT_TYPES.len());
    for (event_type, name) in mapping {
        assert!(schemas["Event"]["oneOf"].as_array().unwrap().contains(&json!({"$ref": name})));
        let event = document.pointer(&name.as_str().unwrap()[1..]).unwrap();
        assert_eq!(event["properties"]["type"]["const"], *event_type);
        assert_eq!(event["properties"]["object"]["const"], "event");
        let webhook = &document["webhooks"][event_type]["post"]["requestBody"]["content"]["application/json"];
        let thin = json!({"$ref": "#/components/schemas/ThinEvent"});
        assert_eq!(webhook["schema"]["anyOf"], json!([{"$ref": name}, thin]));
    }
}

#[test]
fn no_enum_has_a_single_value_or_occurs_twice() {
    fn walk(value: &Value, enums: &mut Vec<Value>) {
        match value {
            Value::Object(fields) => {
                enums.extend(fields.get("enum").cloned());
                fields.values().for_each(|value| walk(value, enums));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, enums)),
            _ => {}
        }
    }
    let mut enums = Vec::new();
    walk(&document(), &mut enums);
    // The two texts of a flag in webhook headers are no enum.
    enums.retain(|values| *values != json!(["true", "false"]));
    for (index, values) in enums.iter().enumerate() {
        assert!(values.as_array().unwrap().len() > 1 && !enums[..index].contains(values), "{values}");
    }
}

#[test]
fn every_property_and_header_is_described() {
    fn walk(document: &Value, value: &Value, place: &str) {
        match value {
            Value::Object(fields) => {
                for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
                    let place = format!("{place}.{name}");
                    let is_described =
                        |schema: &Value| schema["description"].as_str().is_some_and(|text| !text.is_empty());
                    let target = property["$ref"].as_str().and_then(|name| document.pointer(&name[1..]));
                    let reference = property["oneOf"].get(0);
                    let described = [Some(property), target, reference].into_iter().flatten().any(is_described);
                    assert!(described, "{place} has no description");
                }
                for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with("example")) {
                    walk(document, value, &format!("{place}.{name}"));
                }
            }
            Value::Array(values) => values.iter().for_each(|value| walk(document, value, place)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document["components"]["schemas"], "schemas");
    walk(&document, &document["paths"], "paths");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name} has no description");
    }
    let headers = document["components"]["headers"].as_object().unwrap();
    let named = |header: &str| headers.keys().any(|name| name.eq_ignore_ascii_case(header));
    assert!(thesis_proto::metadata::ANSWER_HEADERS.iter().all(|header| named(header)));
    assert!(headers.values().all(|header| header["description"].is_string() && header["schema"].is_object()));
}

#[test]
fn every_schema_is_used() {
    let document = document();
    let text = document.to_string();
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        let reference = format!("\"#/components/schemas/{name}\"");
        assert!(text.contains(&reference), "{name} is not used");
    }
}

//! The schemas of parameters and bodies.

use serde_json::{Map, Value, json};
use thesis_proto::{
    filter,
    json::{
        AlertMetric, DeliveryStatus, EventType, SearchSort, ThesisSort, WebhookFilters, WebhookPayload, WebhookStatus,
    },
};
use utoipa::ToSchema;

use crate::{
    input::{Kind, Param},
    route::Route,
};

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The schemas of requests: enums, filters, and the bodies of these routes.
pub(super) fn schemas(routes: &[Route]) -> Map<String, Value> {
    let bodies = routes.iter().filter(|route| !route.body_name.is_empty()).map(|route| {
        let mut body = object(route.body.unwrap_or_default());
        body["description"] = json!(format!("Fields of `{}`.", route.id));
        (route.body_name.to_owned(), body)
    });
    enums().into_iter().chain([filters()]).chain(bodies).collect()
}

fn object(fields: &[Param]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut property = schema(&field.kind);
        property["description"] = json!(field.about);
        properties.insert(field.name.to_owned(), property);
    }
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn named<T: ToSchema>() -> (String, Value) {
    (T::name().into_owned(), serde_json::to_value(T::schema()).unwrap_or_default())
}

/// The enums of requests.
fn enums() -> [(String, Value); 7] {
    [
        named::<EventType>(),
        named::<WebhookStatus>(),
        named::<WebhookPayload>(),
        named::<DeliveryStatus>(),
        named::<AlertMetric>(),
        named::<ThesisSort>(),
        named::<SearchSort>(),
    ]
}

/// Responses contain filters unchanged, so the schema is the same.
fn filters() -> (String, Value) {
    let (name, mut filters) = named::<WebhookFilters<'_>>();
    for values in filters["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        values["items"] = filter_value();
        values["maxItems"] = json!(filter::MAX_VALUES);
    }
    filters["additionalProperties"] = json!(false);
    (name, filters)
}

fn filter_value() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": filter::MAX_VALUE_CHARS})
}

/// The schema of an enumeration: a reference if an enum has exactly these values.
fn one_of(values: &[&str]) -> Value {
    let named = enums().into_iter().find(|(_, schema)| schema["enum"] == json!(values));
    named.map_or_else(|| json!({"type": "string", "enum": values}), |(name, _)| reference(&name))
}

/// The schema of comma-separated values with one pattern each; `more` says how often the pattern repeats. It is no
/// array, because many client generators write an array as a repeated parameter, whatever the description says.
fn separated(value: &str, more: &str) -> Value {
    json!({"type": "string", "minLength": 1, "pattern": format!("^{value}(,{value}){more}$")})
}

/// The schema of a parameter. Enums that are schemas themselves are referred to by name.
pub(crate) fn schema(kind: &Kind) -> Value {
    match kind {
        Kind::Text(0, usize::MAX) => json!({"type": "string"}),
        Kind::Text(0, max) => json!({"type": "string", "maxLength": max}),
        Kind::Text(min, max) => json!({"type": "string", "minLength": min, "maxLength": max}),
        Kind::NullableText(max) => json!({"type": ["string", "null"], "maxLength": max}),
        Kind::Date => json!({"type": "string", "format": "date"}),
        Kind::Time => json!({"type": "string", "format": "date-time", "maxLength": 200}),
        Kind::NullableNumber => json!({"type": ["number", "null"], "minimum": -1e12, "maximum": 1e12}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Integer(min, max, default) => {
            json!({"type": "integer", "minimum": min, "maximum": max, "default": default})
        }
        Kind::Speed => {
            let pattern = r"^(max|[0-9]+(\.[0-9]+)?)$";
            json!({"type": "string", "pattern": pattern, "default": "max", "examples": ["60"]})
        }
        Kind::OneOf(values) => one_of(&values()),
        Kind::Texts => {
            let value = format!("[^,]{{1,{}}}", filter::MAX_VALUE_CHARS);
            separated(&value, &format!("{{0,{}}}", filter::MAX_VALUES - 1))
        }
        Kind::Searches => json!({"type": "array", "items": filter_value(), "maxItems": filter::MAX_VALUES}),
        Kind::SomeOf(values) => {
            let values = values();
            let mut schema = separated(&format!("({})", values.join("|").replace('.', r"\.")), "*");
            schema["examples"] = json!([values[..2].join(",")]);
            schema
        }
        Kind::EventTypeList(min, max) => {
            json!({"type": "array", "items": reference(&EventType::name()), "minItems": min, "maxItems": max})
        }
        Kind::Filters => reference(&WebhookFilters::name()),
        Kind::Headers => headers(json!("string")),
        Kind::HeaderChanges => headers(json!(["string", "null"])),
    }
}

/// The schema of a webhook's own headers: values of a type, by name.
fn headers(value_type: Value) -> Value {
    json!({"type": "object", "additionalProperties": {"type": value_type, "minLength": 1, "maxLength": 4096}})
}

/// Turns each enum with a single value into a constant, which client generators support better.
pub(super) fn with_constants(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Array(values)) = fields.get_mut("enum")
                && values.len() == 1
            {
                let only = values.remove(0);
                fields.remove("enum");
                fields.insert("const".to_owned(), only);
            }
            fields.values_mut().for_each(with_constants);
        }
        Value::Array(values) => values.iter_mut().for_each(with_constants),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

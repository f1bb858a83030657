//! The schemas of errors: codes, classes, and the details of each code.

use serde_json::{Map, Value, json};
use thesis_proto::error::ErrorCode as Code;

use super::schema::reference;

/// The schema of errors refers to these schemas.
const CODE: &str = "ErrorCode";
const TYPE: &str = "ErrorType";
const DETAILS: &str = "ErrorDetails";
const FIELD: &str = "FieldError";

/// Adds the named schemas to which the schema of errors refers, with all codes.
pub(super) fn name(all: &mut Map<String, Value>, codes: impl Iterator<Item = Code>) {
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for code in codes {
        names.push(code.as_str());
        if !types.contains(&code.error_type()) {
            types.push(code.error_type());
        }
    }
    let about = "Code of an error. New codes may come: treat one that you do not know as its HTTP status says.";
    all.insert(CODE.to_owned(), json!({"type": "string", "enum": names, "description": about}));
    let about = "Class of an error. New classes may come: treat one that you do not know as its HTTP status says.";
    all.insert(TYPE.to_owned(), json!({"type": "string", "enum": types, "description": about}));
    all.insert(DETAILS.to_owned(), details());
    all.insert(FIELD.to_owned(), field());
    if let Some(error) = all.get_mut("Error") {
        let fields = &mut error["properties"];
        for (field, name) in [("code", CODE), ("type", TYPE)] {
            let about = fields[field]["description"].take();
            fields[field] = json!({"description": about, "anyOf": [reference(name), {"type": "string"}]});
        }
        fields["details"] = reference(DETAILS);
    }
}

fn details() -> Value {
    let list = |items: Value, about: &str| json!({"type": "array", "items": items, "description": about});
    let count = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    let environment = "Environment whose webhooks are counted. With `WEBHOOK_LIMIT_REACHED`.";
    let reason = "Why the URL is refused, such as `scheme`, `private` or `unresolvable`. With `WEBHOOK_URL_FORBIDDEN`.";
    let near = "Names near to the one asked for. With `PROFILE_NOT_FOUND` and `TOKEN_NOT_FOUND`, if there are any.";
    json!({
        "type": "object",
        "description": "More data, depending on the code. Other fields may come.",
        "properties": {
            "errors": list(reference(FIELD), "Each wrong parameter and field, 40 at most. With `VALIDATION_FAILED`."),
            "candidates": list(reference("TokenRef"), "The tokens that the symbol names. With `AMBIGUOUS_TOKEN`."),
            "near": list(json!({"type": "string"}), near),
            "reason": {"type": "string", "description": reason},
            "limit": count("What the plan allows. With `WEBHOOK_LIMIT_REACHED` and `STREAM_LIMIT_REACHED`."),
            "open": count("Streams that are open. With `STREAM_LIMIT_REACHED`."),
            "environment": {"$ref": reference("Environment")["$ref"], "description": environment},
        },
        "additionalProperties": true,
    })
}

fn field() -> Value {
    json!({
        "type": "object",
        "description": "One wrong parameter or field.",
        "properties": {
            "param": {"type": "string", "description": "Its name; a dot leads into an object, as in `filters.token`."},
            "message": {"type": "string", "description": "The rule that it breaks, for people."},
        },
        "required": ["param", "message"],
    })
}

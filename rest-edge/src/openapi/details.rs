//! The schemas of errors: codes, classes, and the details of each code.

use serde_json::{Map, Value, json};
use thesis_proto::error::ErrorCode as Code;

use super::schema::reference;

/// The schema of errors refers to these schemas.
const CODE: &str = "ErrorCode";
const TYPE: &str = "ErrorType";

/// The schema of an error's details and those that it refers to, as a JSON object.
const DETAILS: &str = include_str!("details.json");

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
    all.extend(serde_json::from_str::<Map<String, Value>>(DETAILS).expect("the file holds JSON"));
    if let Some(error) = all.get_mut("Error") {
        let fields = &mut error["properties"];
        for (field, name) in [("code", CODE), ("type", TYPE)] {
            let about = fields[field]["description"].take();
            fields[field] = json!({"description": about, "anyOf": [reference(name), {"type": "string"}]});
        }
        fields["details"] = reference("ErrorDetails");
    }
}

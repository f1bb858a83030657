//! The committed description, from which the SDKs are generated, is up to date.

use std::{env, fs};

use serde_json::Value;

use crate::openapi;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/openapi.json");
/// A fixed day in Unix milliseconds, since some examples have times of the day.
const DAY: i64 = 1_795_737_600_000;

/// The path of the first value that differs.
fn first_difference(path: &str, committed: &Value, current: &Value) -> Option<String> {
    if committed == current {
        return None;
    }
    let names: Vec<&String> = match (committed, current) {
        (Value::Object(old), Value::Object(new)) => old.keys().chain(new.keys()).collect(),
        _ => Vec::new(),
    };
    let inner = names.into_iter().find_map(|name| {
        first_difference(&format!("{path}/{name}"), &committed[name.as_str()], &current[name.as_str()])
    });
    Some(inner.unwrap_or_else(|| path.to_owned()))
}

#[test]
fn the_sdks_have_the_current_description() {
    let current = openapi("https://theses.example", DAY);
    if env::var_os("UPDATE_SDK").is_some() {
        fs::write(FILE, format!("{current:#}\n")).unwrap();
        return;
    }
    let committed: Value = serde_json::from_str(&fs::read_to_string(FILE).unwrap()).unwrap();
    let difference = first_difference("", &committed, &current);
    let how = "UPDATE_SDK=1 cargo test -p rest-edge sdk && python3 sdk/generate";
    assert!(difference.is_none(), "{difference:?} differs in sdk/openapi.json; `{how}` writes it anew");
}

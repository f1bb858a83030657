//! Judges the deliveries of a file by the crate standardwebhooks; see standard.py.

use std::{env, fs};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use standardwebhooks::Webhook;

fn texts(values: &Value) -> impl Iterator<Item = &str> {
    values.as_array().unwrap().iter().map(|value| value.as_str().unwrap())
}

fn main() {
    let file = env::args().nth(1).unwrap();
    let told: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let deliveries = told["deliveries"].as_array().unwrap();
    assert!(deliveries.len() >= 1000);
    for delivery in deliveries {
        let mut headers = HeaderMap::new();
        for (name, value) in delivery["headers"].as_object().unwrap() {
            let name = HeaderName::try_from(name).unwrap();
            headers.insert(name, HeaderValue::from_str(value.as_str().unwrap()).unwrap());
        }
        let verifies = |secret: &str, body: &Value| {
            Webhook::new(secret).unwrap().verify(body.as_str().unwrap().as_bytes(), &headers).is_ok()
        };
        for secret in texts(&delivery["secrets"]) {
            assert!(verifies(secret, &delivery["body"]) && !verifies(secret, &delivery["changed"]), "{delivery}");
        }
        assert!(!texts(&delivery["wrong"]).any(|secret| verifies(secret, &delivery["body"])), "{delivery}");
    }
}

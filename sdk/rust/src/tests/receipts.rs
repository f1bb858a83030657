//! Checks the test vectors of receipts, which are in the source of the service.

use std::fs;

use serde::Deserialize;

use crate::{Receipt, verify_receipt};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/receipts");

#[derive(Deserialize)]
struct Vectors {
    documents: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    file: String,
    trusted: Vec<String>,
    witnesses: Vec<String>,
    wrong: Option<String>,
}

fn read(file: &str) -> Vec<u8> {
    fs::read(format!("{FOLDER}/{file}")).unwrap()
}

fn texts(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}

#[test]
fn receipts_are_judged_as_the_vectors_say() {
    let vectors: Vectors = serde_json::from_slice(&read("vectors.json")).unwrap();
    assert!(vectors.documents.len() >= 70);
    for row in vectors.documents {
        let outcome = verify_receipt(&read(&row.file), &texts(&row.trusted), &texts(&row.witnesses));
        match outcome {
            Ok(verified) => {
                assert_eq!(row.wrong, None, "{}", row.file);
                assert_eq!(verified.is_trusted, !row.trusted.is_empty(), "{}", row.file);
                assert_eq!(verified.witnesses.len(), row.witnesses.len(), "{}", row.file);
            }
            Err(error) => assert_eq!(error.fault(), row.wrong.as_deref(), "{}: {error}", row.file),
        }
    }
}

#[test]
fn a_receipt_of_the_api_stays_valid_in_a_file() {
    for name in ["escapes", "more-fields", "hostile-names"] {
        let receipt: Receipt = serde_json::from_slice(&read(&format!("valid/{name}.json"))).unwrap();
        let written = serde_json::to_vec(&receipt).unwrap();
        assert!(verify_receipt(&written, &texts(&receipt.keys), &[]).unwrap().is_trusted, "{name}");
    }
    let error = verify_receipt(&read("valid/plain.json"), &["no key"], &[]).unwrap_err();
    assert_eq!(error.fault(), None, "{error}");
}

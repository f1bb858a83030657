//! `trade-thesis receipt verify` on the test vectors, which another implementation made.

use std::{fs, path::Path};

use serde_json::Value;

use crate::harness::{Setup, text};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/receipts");

/// The exit code, stdout and stderr of a verification.
fn verify(file: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    Setup::new(dir.path()).arguments(&[&["receipt", "verify", file], arguments].concat()).run()
}

fn json(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap()
}

fn vectors() -> Value {
    json(&fs::read_to_string(Path::new(VECTORS).join("vectors.json")).unwrap())
}

fn path_of(file: &str) -> String {
    format!("{VECTORS}/{file}")
}

#[test]
fn files_are_judged_as_the_vectors_say() {
    let vectors = vectors();
    for row in vectors["documents"].as_array().unwrap() {
        let file = text(row, "file");
        let keys = |list: &str, flag: &'static str| {
            let keys = row[list].as_array().unwrap().iter();
            keys.flat_map(|key| [flag.to_owned(), key.as_str().unwrap().to_owned()]).collect::<Vec<_>>()
        };
        let mut arguments = [keys("trusted", "--key"), keys("witnesses", "--witness")].concat();
        arguments.push("--json".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, stdout, stderr) = verify(&path_of(file), &arguments);
        let (expected, verdict) = match row["wrong"].as_str() {
            None => (0, "valid"),
            Some("unreadable") => (2, "unreadable"),
            Some(_) => (1, "invalid"),
        };
        let report = json(&stdout);
        assert_eq!(
            (code, text(&report, "verdict"), stderr.as_str()),
            (Some(expected), verdict, ""),
            "{file}: {report}"
        );
        let is_sentence = !text(&report, "message").contains('\n');
        assert!(is_sentence && report["caution"].is_string() == (expected == 0), "{report}");
    }
}

#[test]
fn a_person_reads_what_is_proven_and_what_is_not() {
    let (code, stdout, _) = verify(&path_of("valid/plain.json"), &[]);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!((code, lines.len(), lines[2]), (Some(0), 3, "text: Glass demand is back, so I hold $RUN."));
    assert!(lines[0].starts_with("valid: the log trade-thesis/live/") && lines[0].contains("@ann posted"), "{stdout}");
    assert!(lines[1].contains("does not prove") && lines[1].contains("compare the key"), "{stdout}");
    let vectors = vectors();
    let key = |name: &str| text(&vectors["keys"], name).to_owned();
    let (_, trusted, _) = verify(&path_of("valid/plain.json"), &["--key", &key("log")]);
    assert!(!trusted.contains("compare the key"), "{trusted}");
    let witness = ["--key", &key("log"), "--witness", &key("witness")];
    let (_, witnessed, _) = verify(&path_of("valid/witnessed.json"), &witness);
    assert!(witnessed.contains("the witness witness.example/one had seen that log by 2026-09-21T"), "{witnessed}");
    let (_, hostile, _) = verify(&path_of("valid/escapes.json"), &[]);
    assert!(!hostile.chars().any(|letter| letter.is_control() && letter != '\n'), "{hostile:?}");
    let (code, stdout, _) = verify(&path_of("invalid/changed-text.json"), &[]);
    assert_eq!((code, stdout.lines().count(), stdout.starts_with("invalid: ")), (Some(1), 1, true), "{stdout}");
}

#[test]
fn a_file_that_is_none_and_a_key_that_is_none_are_refused() {
    let (code, stdout, _) = verify("/nowhere/receipt.json", &["--json"]);
    let report = json(&stdout);
    assert_eq!((code, text(&report, "verdict")), (Some(2), "unreadable"));
    assert!(text(&report, "message").starts_with("/nowhere/receipt.json cannot be read: "), "{report}");
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.json");
    fs::write(&large, vec![b' '; (1 << 20) + 1]).unwrap();
    let (code, stdout, _) = verify(large.to_str().unwrap(), &[]);
    assert!(code == Some(2) && stdout.contains("larger than 1 MiB"), "{stdout}");
    let (code, _, stderr) = verify(&path_of("valid/plain.json"), &["--key", "no key"]);
    assert!(code == Some(2) && stderr.contains("name+id+key"), "{stderr}");
}

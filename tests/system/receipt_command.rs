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
        // What cannot be read may be made to exhaust the stack of a JSON parser.
        let is_valid = expected == 0;
        let document = if is_valid { json(&fs::read_to_string(path_of(file)).unwrap()) } else { Value::Null };
        if is_valid && text(&document, "object") == "receipt" {
            let of_file = ["date", "kind", "sha256"].map(|name| (name, document[name].clone()));
            let is_of_file = document.get("entry").is_some();
            let content = if is_of_file { Value::from_iter(of_file) } else { document["evidence"].clone() };
            assert_eq!(report["content"], content, "{file}");
        }
        if let Some(wrong) = row["wrong"].as_str() {
            let message = text(&report, "message");
            assert!(phrases(wrong).iter().any(|phrase| message.contains(phrase)), "{file}, {wrong}: {message}");
            let is_ambiguous = message.starts_with("the file can be read in two ways: an object has two fields `");
            assert_eq!(is_ambiguous, file.starts_with("unreadable/two-"), "{file}: {message}");
        }
    }
}

/// Phrases for an error word of the vectors. The message of the command must have one of them.
fn phrases(wrong: &str) -> &'static [&'static str] {
    match wrong {
        "unreadable" => &[
            "is empty",
            "is cut off",
            "is not JSON",
            "two fields `",
            "an object has the field `",
            "neither a receipt nor",
            "is no complete receipt",
        ],
        "number" => &["has a number that is not whole"],
        "evidence" => &["the evidence is not complete"],
        "entry" => &["the entry is not that of an archive file", "is not the SHA-256 of the entry"],
        "file" => &["names the archive file"],
        "salt" => &["the salt is not 16 bytes"],
        "form" => &["is not a proof in the format", "is not a signed note in the format", "is not a signature line"],
        "origin" => &["is not a log of this service"],
        "thesis" => &["names the thesis"],
        "index" => &["names the index"],
        "sequence" => &["has the sequence number"],
        "dataset" => &["is of the dataset"],
        "livemode" => &["`livemode` is"],
        "beyond" => &["covers only"],
        "length" => &["no proof for the entry"],
        "root" => &["the evidence and the salt do not belong to the hashes of the proof"],
        "keys" => &["lists no key"],
        "key" => &["the listed key", "is of another log", "is the key of a witness"],
        "unsigned" => &["is not signed by the listed key"],
        "signature" => &["is wrong, so the"],
        "untrusted" => &["none of the keys that you trust"],
        "witness" => &["has not cosigned"],
        _ => &[],
    }
}

#[test]
fn a_person_reads_what_is_proven_and_what_is_not() {
    let (code, stdout, _) = verify(&path_of("valid/plain.json"), &[]);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!((code, lines.len(), lines[2]), (Some(0), 3, "text: Glass demand is back, so I hold $RUN."));
    assert!(
        lines[0].starts_with("valid: if the key trade-thesis/live/") && lines[0].contains("@ann posted"),
        "{stdout}"
    );
    for limit in ["who controls the account", "still stands", "--witness", "compare the key"] {
        assert!(lines[1].contains(limit), "{limit}: {stdout}");
    }
    assert!(!lines[1].contains("test data"), "{stdout}");
    let vectors = vectors();
    let key = |name: &str| text(&vectors["keys"], name).to_owned();
    let (_, trusted, _) = verify(&path_of("valid/plain.json"), &["--key", &key("log")]);
    assert!(trusted.starts_with("valid: signed by a key that you trust: the service recorded"), "{trusted}");
    assert!(!trusted.contains("compare the key"), "{trusted}");
    let witness = ["--key", &key("log"), "--witness", &key("witness")];
    let (_, witnessed, _) = verify(&path_of("valid/witnessed.json"), &witness);
    assert!(witnessed.contains("the witness witness.example/one had seen that log by 2026-09-21T"), "{witnessed}");
    assert!(!witnessed.contains("--witness"), "{witnessed}");
    let (_, sandbox, _) = verify(&path_of("valid/sandbox.json"), &[]);
    assert!(sandbox.contains("test data"), "{sandbox}");
    let (_, deleted, _) = verify(&path_of("valid/deleted.json"), &[]);
    assert!(deleted.lines().count() == 2 && !deleted.contains("still stands"), "{deleted}");
    let (_, statement, _) = verify(&path_of("valid/statement.json"), &[]);
    let content: Vec<&str> = statement.lines().skip(2).collect();
    assert!(
        content.len() == 2 && content[0].starts_with("claim: {") && content[1].starts_with("verdict: {"),
        "{statement}"
    );
    for name in ["escapes", "right-to-left", "hostile-names"] {
        let (_, hostile, _) = verify(&path_of(&format!("valid/{name}.json")), &[]);
        let is_control = |letter: char| letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}');
        assert!(!hostile.chars().any(|letter| is_control(letter) && letter != '\n'), "{hostile:?}");
    }
    let (_, escapes, _) = verify(&path_of("valid/escapes.json"), &[]);
    assert!(escapes.contains(r"backslash \\, slash /, tab \t, newline \n"), "{escapes}");
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
    let vectors = vectors();
    for (flag, key, other) in [("--key", "witness", "--witness"), ("--witness", "log", "--key")] {
        let (code, _, stderr) = verify(&path_of("valid/witnessed.json"), &[flag, text(&vectors["keys"], key)]);
        assert!(code == Some(2) && stderr.contains(&format!("name it with {other}")), "{stderr}");
    }
}

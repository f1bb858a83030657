//! The verdict on a file, for people and for programs.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use thesis_proto::time::format_millis;
use thesis_receipts::{Document, Evidence, EvidenceKind, FileEntry, Subject, VerifiedDocument};

use crate::terminal::is_control;

const OBJECT: &str = "receipt_verification";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Valid,
    Invalid,
    Unreadable,
}

/// The result of a verification.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    object: &'static str,
    verdict: Verdict,
    /// One sentence: the proven fact or the error.
    message: String,
    /// The limits of the proof. Only for a valid file.
    caution: Option<String>,
    /// True if the log's key is one that the caller trusts.
    is_trusted: bool,
    /// The name of the log.
    log: Option<String>,
    /// Number of entries that the checkpoint covers.
    size: Option<u64>,
    /// The keys that signed.
    keys: Vec<String>,
    /// The witnesses that the caller asked for, with the times of their cosignatures.
    witnesses: Vec<Value>,
    /// The recorded evidence, or the statement's claim and verdict.
    content: Value,
}

impl Report {
    fn refused(verdict: Verdict, message: String) -> Self {
        Self {
            object: OBJECT,
            verdict,
            message,
            caution: None,
            is_trusted: false,
            log: None,
            size: None,
            keys: Vec::new(),
            witnesses: Vec::new(),
            content: Value::Null,
        }
    }

    /// The report about a file that is no document.
    pub(super) fn unreadable(message: String) -> Self {
        Self::refused(Verdict::Unreadable, message)
    }

    /// The report about a document that proves nothing.
    pub(super) fn invalid(message: String) -> Self {
        Self::refused(Verdict::Invalid, message)
    }

    /// The report about a valid document.
    pub(super) fn valid(document: &Document, proven: &VerifiedDocument) -> Self {
        let witness = |name: &str, at: u64| json!({"name": name, "at": format_time(at)});
        // As the file has it: the signature covers fields of later versions too.
        let content = match document {
            Document::Receipt(receipt) => receipt.evidence.clone(),
            Document::FileReceipt(receipt) => {
                json!({"date": receipt.date, "kind": receipt.kind, "sha256": receipt.sha256})
            }
            Document::Statement(statement) => json!({"claim": statement.claim, "verdict": statement.verdict}),
        };
        Self {
            caution: Some(caution(proven)),
            is_trusted: proven.is_trusted,
            log: Some(proven.checkpoint.origin.clone()),
            size: Some(proven.checkpoint.size),
            keys: proven.keys.iter().map(ToString::to_string).collect(),
            witnesses: proven.witnesses.iter().map(|one| witness(&one.name, one.at)).collect(),
            content,
            ..Self::refused(Verdict::Valid, message(proven))
        }
    }

    /// 0 for valid, 1 for invalid, 2 for unreadable.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.verdict {
            Verdict::Valid => 0,
            Verdict::Invalid => 1,
            Verdict::Unreadable => 2,
        })
    }

    /// One JSON document.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written")
    }

    /// Lines for people.
    pub(super) fn text(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Valid => "valid",
            Verdict::Invalid => "invalid",
            Verdict::Unreadable => "not readable",
        };
        let mut lines = vec![format!("{verdict}: {}", printable(&self.message))];
        lines.extend(self.caution.as_deref().map(printable));
        // A deletion has no text: the message says all of it.
        lines.extend(self.content["text"].as_str().map(|text| format!("text: {}", printable(text))));
        for field in ["claim", "verdict"] {
            lines.extend(self.content.get(field).map(|value| format!("{field}: {}", printable_json(value))));
        }
        lines.join("\n")
    }
}

/// Escapes a text from outside, which must neither control the terminal nor change the direction of the text after it.
/// Backslashes are escaped too, so that a text cannot imitate an escape.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\\' || is_control(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Escapes the same characters in JSON, except backslashes, which belong to its own escapes.
fn printable_json(value: &Value) -> String {
    let mut shown = String::new();
    for letter in value.to_string().chars() {
        if is_control(letter) {
            shown.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// A time in seconds since 1970.
fn format_time(seconds: u64) -> String {
    format_millis(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000))
}

/// A sentence about the proven fact.
fn message(proven: &VerifiedDocument) -> String {
    let (log, size) = (&proven.checkpoint.origin, proven.checkpoint.size);
    let mut text = condition(proven);
    text.push_str(&match &proven.subject {
        Subject::Recorded(evidence) => {
            let (number, at) = (evidence.sequence, &evidence.recorded_at);
            format!(
                "the service recorded at {at}, by its own clock, that {}; the signed tree of {size} entries of the log \
                 {log} has it as entry {number}, and a later rewrite would contradict this signature",
                change(evidence)
            )
        }
        Subject::Archived { entry, sequence } => {
            let FileEntry { date, kind, rows, sha256, recorded_at, .. } = entry;
            format!(
                "the service recorded at {}, by its own clock, that its archive file {kind} of {date} has {rows} rows \
                 and the SHA-256 {sha256}; the signed tree of {size} entries of the log {log} has this as entry \
                 {sequence}, and a later rewrite would contradict this signature",
                format_millis(*recorded_at)
            )
        }
        Subject::Stated { .. } => format!(
            "the service signed this verdict about this claim, after it had read the checkpoint of its log {log} with \
             {size} entries"
        ),
    });
    for witness in &proven.witnesses {
        text.push_str(&format!("; the witness {} had seen that log by {}", witness.name, format_time(witness.at)));
    }
    text + "."
}

/// Whoever made the file may have made its key, so without a trusted one the service may have said nothing.
fn condition(proven: &VerifiedDocument) -> String {
    if proven.is_trusted {
        return "signed by a key that you trust: ".to_owned();
    }
    let keys: Vec<String> = proven.keys.iter().map(ToString::to_string).collect();
    format!("if the key {} is the service's: ", keys.join(" or "))
}

fn change(evidence: &Evidence) -> String {
    let Evidence { profile, token, thesis_id, created_at, .. } = evidence;
    let (author, token) = (&profile.handle, format!("{} ({} {})", token.symbol, token.chain, token.address));
    match evidence.kind {
        EvidenceKind::Created => format!("{author} posted this text about {token} at {created_at}"),
        EvidenceKind::Edited => format!("{author} changed thesis {thesis_id} about {token} to this text"),
        EvidenceKind::Deleted => format!("thesis {thesis_id} by {author} about {token} was deleted"),
    }
}

/// Sentences about the limits of the proof.
fn caution(proven: &VerifiedDocument) -> String {
    let mut limits = vec![match &proven.subject {
        Subject::Recorded(_) => {
            "It does not prove who controls the account, or that the text is true; the time of the post is what the \
             platform said."
        }
        Subject::Archived { .. } => {
            "It does not prove that your copy is that file: compare its SHA-256. A later entry may have another hash, \
             after the text of a deleted thesis was erased."
        }
        Subject::Stated { .. } => {
            "It proves only the service's answer: nothing can prove that a thesis does not exist."
        }
    }];
    if matches!(&proven.subject, Subject::Recorded(evidence) if evidence.kind != EvidenceKind::Deleted) {
        limits.push("Nor does it prove that the thesis still stands: a later entry may have edited or deleted it.");
    }
    if proven.witnesses.is_empty() {
        limits
            .push("It does not prove that others saw the log at that time: name the key of a witness with --witness.");
    }
    if proven.dataset == "sandbox" {
        limits.push("The log is of the sandbox, so this is test data.");
    }
    if !proven.is_trusted {
        limits.push(
            "Whoever made the file may have made its key: compare the key with those that the service lists at \
             /v1/log/keys, and name it with --key.",
        );
    }
    limits.join(" ")
}

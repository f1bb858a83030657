//! The verdict on a file, for people and for programs.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};
use thesis_proto::time::format_millis;
use thesis_receipts::{Evidence, EvidenceKind, Proven, Subject};

const OBJECT: &str = "receipt_verification";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Valid,
    Invalid,
    Unreadable,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    object: &'static str,
    verdict: Verdict,
    /// One sentence: what is proven, or what is wrong.
    message: String,
    /// One sentence: what is not proven. Only of a valid file.
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
    /// What the log recorded, or the statement's claim and verdict.
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

    /// A file that is no document.
    pub(super) fn unreadable(message: String) -> Self {
        Self::refused(Verdict::Unreadable, message)
    }

    /// A document that proves nothing.
    pub(super) fn invalid(message: String) -> Self {
        Self::refused(Verdict::Invalid, message)
    }

    /// A document with all that it proves.
    pub(super) fn valid(proven: &Proven) -> Self {
        let witness = |name: &str, at: u64| json!({"name": name, "at": format_time(at)});
        let content = match &proven.subject {
            Subject::Recorded(evidence) => json!(evidence),
            Subject::Stated { claim, verdict } => json!({"claim": claim, "verdict": verdict}),
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
        match &self.content {
            Value::Null => {}
            content => match content["text"].as_str() {
                Some(text) => lines.push(format!("text: {}", printable(text))),
                // Its JSON has the words of customers escaped or as they are.
                None => lines.push(printable(&content.to_string())),
            },
        }
        lines.join("\n")
    }
}

/// Texts of other people must not control the terminal.
fn printable(text: &str) -> String {
    if text.contains(char::is_control) { text.escape_debug().to_string() } else { text.to_owned() }
}

/// A time in seconds since 1970.
fn format_time(seconds: u64) -> String {
    format_millis(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000))
}

/// What is proven.
fn message(proven: &Proven) -> String {
    let (log, size) = (&proven.checkpoint.origin, proven.checkpoint.size);
    let mut text = match &proven.subject {
        Subject::Recorded(evidence) => {
            let (number, at) = (evidence.sequence, &evidence.recorded_at);
            format!(
                "the log {log} has as entry {number}, recorded at {at} by the service's clock, that {}; the entry was \
                 not rewritten up to entry {size}",
                deed(evidence)
            )
        }
        Subject::Stated { .. } => {
            format!("the service stated this verdict about this claim, from its log {log} up to entry {size}")
        }
    };
    for witness in &proven.witnesses {
        text.push_str(&format!("; the witness {} had seen that log by {}", witness.name, format_time(witness.at)));
    }
    text + "."
}

fn deed(evidence: &Evidence) -> String {
    let Evidence { profile, token, thesis_id, created_at, .. } = evidence;
    let (author, token) = (&profile.handle, format!("{} ({} {})", token.symbol, token.chain, token.address));
    match evidence.kind {
        EvidenceKind::Created => format!("{author} posted this text about {token} at {created_at}"),
        EvidenceKind::Edited => format!("{author} changed thesis {thesis_id} about {token} to this text"),
        EvidenceKind::Deleted => format!("thesis {thesis_id} by {author} about {token} was deleted"),
    }
}

/// What is not proven.
fn caution(proven: &Proven) -> String {
    let limits = match &proven.subject {
        Subject::Recorded(_) => {
            "It does not prove who controls the account, or that the text is true; the time of the post is what the \
             platform said."
        }
        Subject::Stated { .. } => "It proves only what the service said: that something is absent has no proof.",
    };
    let key = "Whoever made the file may have made its key: compare the key with those that the service lists at \
               /v1/log/keys, and name it with --key.";
    if proven.is_trusted { limits.to_owned() } else { format!("{limits} {key}") }
}

//! `api verify`: checks whether an author posted a thesis on a token in a time window.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use super::{client::ApiClient, output::Output};
use crate::{Failure, config::read_time};

/// Characters of an id after its prefix.
const ID_CHARS: usize = 24;
/// The prefixes of ids that people take for an author's.
const ID_PREFIXES: [&str; 4] = ["fp_", "th_", "tk_", "evt_"];

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  trade-thesis api verify --author @sbx_runner --token RUN --after 5d\n\n\
    The exit code is 0 when the claim is verified, 1 when it is not, and 2 when there is no verdict.")]
pub(super) struct Verify {
    /// Author: handle with or without @, fp_ id, or user id of the platform such as u_114
    #[arg(long, value_name = "AUTHOR", value_parser = author)]
    author: (&'static str, String),
    /// Token: SYMBOL, address, chain:address or tk_ id
    #[arg(long, value_name = "TOKEN")]
    token: String,
    /// Chain of the token, if its symbol is on several chains
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// Start of the window: ISO 8601, or a span before now such as 24h
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    after: String,
    /// End of the window [default: now]
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    before: Option<String>,
    /// Text that the thesis must contain, in any case
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Add the receipt of the thesis, or a signed statement when the claim is not verified
    #[arg(long)]
    receipt: bool,
}

/// The field of the request that names an author, and its value. Only a text in the form of a profile's id is one.
fn author(text: &str) -> Result<(&'static str, String), String> {
    let handle = text.strip_prefix('@').unwrap_or(text);
    if handle.is_empty() || handle.contains(char::is_whitespace) {
        return Err("not a handle such as @name, nor the id of a profile such as fp_…".to_owned());
    }
    let is_handle = || Ok(("handle", text.to_owned()));
    if text.starts_with('@') {
        return is_handle();
    }
    let is_id = match text.split_once('_') {
        Some(("fp", rest)) if rest.len() == ID_CHARS => rest.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        Some(("u", rest)) => !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    if is_id {
        return Ok(("profile_id", text.to_owned()));
    }
    if ID_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
        let text = text.escape_debug();
        return Err(format!(
            "not the id of a profile, which is fp_ and {ID_CHARS} characters; write @{text} for a handle"
        ));
    }
    is_handle()
}

/// Prints the verdict. Returns it as the exit code.
pub(super) async fn run(verify: Verify, client: &ApiClient, output: &Output) -> Result<ExitCode, Failure> {
    let (author, reference) = verify.author;
    let fields = [
        (author, Some(reference)),
        ("token", Some(verify.token)),
        ("chain", verify.chain),
        ("created_after", Some(verify.after)),
        ("created_before", verify.before),
        ("contains", verify.contains),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    let mut body: Map<String, Value> = fields.collect();
    if verify.receipt {
        body.insert("receipt".to_owned(), json!(true));
    }
    let answer = client.post(&["verify", "thesis"], body.into()).await?;
    output.one(&answer)?;
    let verdict: Value = serde_json::from_str(&answer)?;
    Ok(if verdict["verified"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_a_handle_unless_it_has_the_form_of_an_id() {
        let profile = format!("fp_{}", "a1".repeat(ID_CHARS / 2));
        for (text, field) in [
            ("@writer", "handle"),
            ("writer", "handle"),
            ("u_boot", "handle"),
            ("@fp_fan", "handle"),
            ("u_114", "profile_id"),
            (profile.as_str(), "profile_id"),
        ] {
            assert_eq!(author(text), Ok((field, text.to_owned())));
        }
        for text in ["", "@", "a b", "@a\t"] {
            assert!(author(text).unwrap_err().contains("not a handle"), "{text}");
        }
        for text in ["fp_fan", "th_0123456789abcdefghjkmnpq", "tk_1", &profile[..20]] {
            assert!(author(text).unwrap_err().ends_with(&format!("write @{text} for a handle")), "{text}");
        }
    }
}

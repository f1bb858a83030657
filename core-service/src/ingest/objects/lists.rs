//! Responses that list objects. A wrong object does not affect the others.

use std::cmp::Reverse;

use serde_json::Value;

use super::{
    Refusal,
    fields::{Fields, address, network},
    json, thesis,
};
use crate::domain::{observation::Observation, row::Wallet};

/// Maximum number of wallets of one profile.
const MAX_WALLETS: usize = 100;
/// Maximum number of bytes of a cursor.
const MAX_CURSOR: usize = 2_048;

#[derive(Clone, Debug, PartialEq)]
pub struct ThesisPage {
    /// The observations of each thesis, in the page's order.
    pub theses: Vec<Result<Vec<Observation>, Refusal>>,
    /// The cursor of the next page; none at the end.
    pub next_cursor: Option<String>,
    /// The reason why the next page cannot be requested, although there may be one.
    pub broken_off: Option<Refusal>,
    /// The oldest `updated_at` of the theses. They come newest first, so the next page has older ones.
    pub oldest_ms: Option<i64>,
    /// The newest `updated_at` of the theses.
    pub newest_ms: Option<i64>,
}

pub fn page(bytes: &[u8], now_ms: i64) -> Result<ThesisPage, Refusal> {
    let value = json(bytes)?;
    let theses: Vec<_> = data(&value)?.iter().map(|one| thesis(one, now_ms)).collect();
    let changed_at = || theses.iter().flatten().flatten().filter_map(|observation| observation.revision);
    let (oldest_ms, newest_ms) = (changed_at().min(), changed_at().max());
    let (next_cursor, broken_off) = match value.get("next_cursor") {
        None | Some(Value::Null) => (None, None),
        Some(Value::String(cursor)) if cursor.is_empty() => (None, None),
        Some(Value::String(cursor)) if cursor.len() <= MAX_CURSOR => (Some(cursor.clone()), None),
        Some(_) => (None, Some(Refusal::Field("next_cursor"))),
    };
    Ok(ThesisPage { theses, next_cursor, broken_off, oldest_ms, newest_ms })
}

/// Reads the public and authorized wallets of a profile, newest first. It leaves out wrong ones.
pub fn wallets(value: &Value, now_ms: i64) -> Result<Vec<Wallet>, Refusal> {
    let mut wallets: Vec<_> = data(value)?.iter().filter_map(|one| wallet(one, now_ms)).collect();
    wallets.sort_by_key(|wallet| Reverse(wallet.observed_at));
    wallets.truncate(MAX_WALLETS);
    Ok(wallets)
}

fn data(value: &Value) -> Result<&Vec<Value>, Refusal> {
    let object = value.as_object().ok_or(Refusal::Malformed)?;
    object.get("data").and_then(Value::as_array).ok_or(Refusal::Field("data"))
}

fn wallet(value: &Value, now_ms: i64) -> Option<Wallet> {
    let fields = Fields::of(value, now_ms).ok()?;
    let is_shown = ["public", "authorized"].iter().all(|name| fields.flag(name) == Some(true));
    if !is_shown {
        return None;
    }
    Some(Wallet {
        address: fields.required("address", address).ok()?,
        network: fields.required("network", network).ok()?,
        observed_at: fields.time("observed_at").ok()?,
    })
}

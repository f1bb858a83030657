//! Reads the upstream's JSON as observations. This module trusts no value, and reads only the fields that it names: an
//! unknown field has no effect.

mod fields;
mod lists;
mod refusal;
#[cfg(test)]
mod tests;

use std::iter::once;

use serde_json::Value;
use thesis_proto::json::untrusted;

use self::fields::{Fields, address, chain, handle, id, symbol};
pub use self::{
    lists::{page, wallets},
    refusal::Refusal,
};
use crate::domain::observation::{
    Observation, ObservedEngagement, ObservedProfile, ObservedThesis, ObservedThing, ObservedToken,
};

/// Maximum number of bytes of a text: 64 KiB.
const MAX_TEXT: usize = 64 * 1024;

/// Names of a profile's fields inside a thesis.
const PROFILE_NAMES: [(&str, &str); 3] =
    [("id", "profile.id"), ("handle", "profile.handle"), ("updated_at", "profile.updated_at")];
/// Names of a token's fields inside a thesis.
const TOKEN_NAMES: [(&str, &str); 4] = [
    ("chain", "token.chain"),
    ("address", "token.address"),
    ("symbol", "token.symbol"),
    ("updated_at", "token.updated_at"),
];

pub fn json(bytes: &[u8]) -> Result<Value, Refusal> {
    untrusted::read(bytes).map_err(|_| Refusal::Malformed)
}

pub fn profile(value: &Value, now_ms: i64) -> Result<ObservedProfile, Refusal> {
    let fields = Fields::of(value, now_ms)?;
    let updated_at = fields.time("updated_at")?;
    Ok(ObservedProfile {
        upstream_id: fields.required("id", id)?,
        handle: fields.required("handle", handle)?,
        display_name: fields.line("display_name"),
        avatar_url: fields.url("avatar_url"),
        profile_url: fields.url("profile_url"),
        bio: fields.lines("bio"),
        verified: fields.flag("verified"),
        created_at: fields.time("created_at").ok(),
        source_updated_at: Some(updated_at),
        wallets: None,
        revision: Some(updated_at),
    })
}

pub fn token(value: &Value, now_ms: i64) -> Result<ObservedToken, Refusal> {
    let fields = Fields::of(value, now_ms)?;
    let updated_at = fields.time("updated_at")?;
    Ok(ObservedToken {
        chain: fields.required("chain", chain)?,
        address: fields.required("address", address)?,
        symbol: fields.required("symbol", symbol)?,
        name: fields.line("name"),
        chain_id: fields.count("chain_id"),
        logo_url: fields.url("logo_url"),
        platform_url: fields.url("platform_url"),
        source_updated_at: Some(updated_at),
        revision: Some(updated_at),
    })
}

/// Reads a thesis, or the tombstone of one. A tombstone gives the deletion first. The thesis follows when the tombstone
/// has its author, token and time, so that a verification can say that it is deleted.
pub fn thesis(value: &Value, now_ms: i64) -> Result<Vec<Observation>, Refusal> {
    thesis_or_tombstone(value, now_ms, false)
}

/// Reads a deleted thesis, with or without its own `deleted` field.
pub fn deleted_thesis(value: &Value, now_ms: i64) -> Result<Vec<Observation>, Refusal> {
    thesis_or_tombstone(value, now_ms, true)
}

pub fn engagement(value: &Value, now_ms: i64) -> Result<Observation, Refusal> {
    let fields = Fields::of(value, now_ms)?;
    let updated_at = fields.time("updated_at")?;
    let seen = ObservedEngagement {
        upstream_id: fields.required("id", id)?,
        likes: fields.count("likes"),
        replies: fields.count("replies"),
    };
    Ok(Observation { observed_at: now_ms, revision: Some(updated_at), seen: ObservedThing::Engagement(seen) })
}

pub(super) fn time(value: &Value, name: &'static str, now_ms: i64) -> Result<i64, Refusal> {
    Fields::of(value, now_ms)?.time(name)
}

fn thesis_or_tombstone(value: &Value, now_ms: i64, is_deleted: bool) -> Result<Vec<Observation>, Refusal> {
    let fields = Fields::of(value, now_ms)?;
    let upstream_id = fields.required("id", id)?;
    let updated_at = fields.time("updated_at")?;
    let is_deleted = is_deleted || fields.flag("deleted") == Some(true);
    let observed = |seen| Observation { observed_at: now_ms, revision: Some(updated_at), seen };
    let content = content(&fields, &upstream_id, updated_at, is_deleted);
    if !is_deleted {
        return Ok(vec![observed(ObservedThing::Thesis(Box::new(content?)))]);
    }
    let content = content.ok().map(|seen| observed(ObservedThing::Thesis(Box::new(seen))));
    Ok(once(observed(ObservedThing::Deletion(upstream_id))).chain(content).collect())
}

fn content(
    fields: &Fields<'_>,
    upstream_id: &str,
    updated_at: i64,
    is_deleted: bool,
) -> Result<ObservedThesis, Refusal> {
    let null = Value::Null;
    let profile = profile(fields.get("profile").unwrap_or(&null), fields.now_ms)
        .map_err(|refusal| refusal.within("profile", &PROFILE_NAMES))?;
    let token = token(fields.get("token").unwrap_or(&null), fields.now_ms)
        .map_err(|refusal| refusal.within("token", &TOKEN_NAMES))?;
    let created_at = fields.time("created_at")?;
    let text = match text(fields) {
        Err(_) if is_deleted => String::new(),
        text => text?,
    };
    Ok(ObservedThesis {
        upstream_id: upstream_id.to_owned(),
        profile,
        token,
        text,
        likes: fields.count("likes"),
        replies: fields.count("replies"),
        created_at,
        // A row never changes before it is created; the revision stays as the upstream sends it.
        updated_at: updated_at.max(created_at),
    })
}

fn text(fields: &Fields<'_>) -> Result<String, Refusal> {
    match fields.text("text") {
        None | Some("") => Err(Refusal::Field("text")),
        Some(text) if text.len() > MAX_TEXT => Err(Refusal::TextTooLong),
        Some(text) => Ok(text.to_owned()),
    }
}

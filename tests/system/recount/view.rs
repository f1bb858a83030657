//! The rows that a key sees: everything in its one or two datasets, nothing else.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    caller::{Failure, Outcome},
    world::{LIVE, Profile, Rows, SANDBOX, Thesis, Token, World, is_at, is_called, profile_ref, source, token_ref},
};
use crate::harness::{iso, text};

pub(super) const MINUTE_MS: i64 = 60_000;
pub(super) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(super) const DAY_MS: i64 = 24 * HOUR_MS;
/// Most time that a bound may lie before the history window and count as its start.
pub(super) const GRACE_MS: i64 = MINUTE_MS;

/// The datasets of a key, in their order, and its history window.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) datasets: Vec<usize>,
    pub(super) days: i64,
}

/// The world as a key sees it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) world: &'a World,
    pub(super) sight: &'a Sight,
}

impl Sight {
    pub(super) fn of<'a>(&'a self, world: &'a World) -> View<'a> {
        View { world, sight: self }
    }

    pub(super) fn livemode(&self) -> bool {
        self.datasets == [LIVE]
    }

    /// Where its history starts at a moment.
    fn start(&self, now: i64) -> i64 {
        now - self.days * DAY_MS
    }

    /// The lower bound of a read.
    pub(super) fn lower(&self, explicit: Option<i64>, now: i64) -> Result<Lower, Failure> {
        let start = self.start(now);
        match explicit {
            Some(bound) if bound < start - GRACE_MS => Err(Failure::of("HISTORY_LIMIT")),
            Some(bound) => Ok(Lower { sandbox: bound.max(start), others: bound.max(start) }),
            None => Ok(self.window(now)),
        }
    }

    /// The bounds of the window at a moment: the sandbox has none.
    pub(super) fn window(&self, now: i64) -> Lower {
        Lower { sandbox: i64::MIN, others: self.start(now) }
    }

    /// Whether a row may be read by its id.
    pub(super) fn may_read(&self, dataset: usize, created_at: i64, now: i64) -> Result<(), Failure> {
        if dataset == SANDBOX { Ok(()) } else { self.lower(Some(created_at), now).map(drop) }
    }
}

/// A lower bound, inclusive, of each dataset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lower {
    pub(super) sandbox: i64,
    pub(super) others: i64,
}

impl Lower {
    pub(super) fn of(self, dataset: usize) -> i64 {
        if dataset == SANDBOX { self.sandbox } else { self.others }
    }
}

impl<'a> View<'a> {
    pub(super) fn rows(self) -> impl Iterator<Item = &'a Rows> {
        self.sight.datasets.iter().map(move |dataset| &self.world.datasets[*dataset])
    }

    /// Theses that exist or existed.
    pub(super) fn ever(self) -> impl Iterator<Item = &'a Thesis> {
        self.rows().flat_map(|rows| &rows.theses)
    }

    /// Theses that exist.
    pub(super) fn theses(self) -> impl Iterator<Item = &'a Thesis> {
        self.ever().filter(|thesis| !thesis.deleted)
    }

    pub(super) fn profile(self, id: &str) -> Option<&'a Profile> {
        self.rows().find_map(|rows| rows.profile(id))
    }

    pub(super) fn token(self, id: &str) -> Option<&'a Token> {
        self.rows().find_map(|rows| rows.token(id))
    }

    /// The names that the refusal of a reference may tell: handles, or symbols and addresses on their chains.
    pub(super) fn names(self, code: &str) -> Vec<String> {
        let profiles = || self.rows().flat_map(|rows| &rows.profiles).map(|profile| &profile.row);
        let tokens = || self.rows().flat_map(|rows| &rows.tokens).map(|token| &token.row);
        match code {
            "PROFILE_NOT_FOUND" => profiles().map(|row| text(row, "handle").to_owned()).collect(),
            "TOKEN_NOT_FOUND" => tokens()
                .flat_map(|row| {
                    [text(row, "symbol").to_owned(), format!("{}:{}", text(row, "chain"), text(row, "address"))]
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn by_handle(self, handle: &str) -> Option<&'a str> {
        self.rows().find_map(|rows| rows.by_handle(handle))
    }

    pub(super) fn by_upstream_id(self, upstream_id: &str) -> Option<&'a str> {
        let named = |rows: &'a Rows| rows.profiles.iter().find(|profile| profile.upstream_id == upstream_id);
        self.rows().find_map(named).map(|profile| text(&profile.row, "id"))
    }

    /// The profile that an id names, the service's or the upstream's.
    pub(super) fn by_any_id(self, id: &str) -> Option<&'a str> {
        self.profile(id).map(|profile| text(&profile.row, "id")).or_else(|| self.by_upstream_id(id))
    }

    /// The profile that a reference names: by id, by upstream id, by handle.
    pub(super) fn named(self, reference: &str) -> Option<&'a str> {
        self.by_any_id(reference).or_else(|| self.by_handle(reference))
    }

    /// The tokens that a reference names: by id, by chain and address, by address, by symbol; the first that exists.
    pub(super) fn tokens_named(self, reference: &str, chain: Option<&str>) -> Vec<&'a Token> {
        if let Some(token) = self.token(reference) {
            return Some(token)
                .into_iter()
                .filter(|token| chain.is_none_or(|chain| token.row["chain"] == chain))
                .collect();
        }
        let here = |token: &&Token| chain.is_none_or(|chain| token.row["chain"] == chain);
        let all = || self.rows().flat_map(|rows| &rows.tokens).filter(here);
        let exact = reference.split_once(':');
        let on_chain =
            all().filter(|token| exact.is_some_and(|(on, at)| token.row["chain"] == on && is_at(&token.row, at)));
        let at = all().filter(|token| is_at(&token.row, reference));
        let with = all().filter(|token| is_called(&token.row, reference));
        let readings: [Vec<&Token>; 3] = [on_chain.collect(), at.collect(), with.collect()];
        readings.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The one token that a reference names.
    pub(super) fn one_token(self, reference: &str, chain: Option<&str>) -> Result<Option<&'a Token>, Failure> {
        let found = self.tokens_named(reference, chain);
        match found.as_slice() {
            [] => Ok(None),
            [token] => Ok(Some(token)),
            several => Err(Failure::ambiguous(several.iter().map(|token| token_ref(&token.row)).collect())),
        }
    }

    /// The theses on a token in `(after, upto]`.
    pub(super) fn window(self, token: &str, after: i64, upto: i64) -> Vec<&'a Thesis> {
        let inside = |thesis: &&Thesis| thesis.token == token && (after + 1..=upto).contains(&thesis.created_at);
        self.theses().filter(inside).collect()
    }

    /// A thesis with its author and token as they are now.
    pub(super) fn thesis_row(self, thesis: &Thesis) -> Value {
        let profile = self.profile(&thesis.profile).expect("the author is seen by who sees the thesis");
        let token = self.token(&thesis.token).expect("the token is seen by who sees the thesis");
        json!({
            "object": "thesis", "id": thesis.id, "profile": profile_ref(&profile.row), "token": token_ref(&token.row),
            "text": thesis.text, "public_url": null, "likes": thesis.likes, "replies": thesis.replies,
            "created_at": iso(thesis.created_at), "updated_at": iso(thesis.updated_at),
            "source": source(thesis.dataset), "livemode": thesis.dataset == LIVE,
        })
    }

    /// A token with its counts.
    pub(super) fn token_row(self, token: &Token, now: i64) -> Value {
        let id = text(&token.row, "id");
        let all = self.window(id, i64::MIN / 2, i64::MAX / 2);
        let mut row = token.row.clone();
        row["thesis_count"] = json!(all.len());
        row["unique_thesis_authors"] = json!(authors(&all));
        row["recent_thesis_count"] = json!(self.window(id, now - DAY_MS, now).len());
        row["last_activity_at"] = json!(newest(&all).map(|thesis| iso(thesis.created_at)));
        row
    }

    /// A token's activity, with `recent` of its newest theses.
    pub(super) fn activity(self, token: &Token, recent: usize, now: i64) -> Value {
        let id = text(&token.row, "id");
        let mut all = self.window(id, i64::MIN / 2, i64::MAX / 2);
        newest_first(&mut all);
        let window = self.sight.window(now);
        let timeline: Vec<Value> = (0..24)
            .map(|hour| {
                let start = now - DAY_MS + hour * HOUR_MS;
                let inside = self.window(id, start, start + HOUR_MS);
                json!({"bucket_start": iso(start), "theses": inside.len(), "unique_authors": authors(&inside)})
            })
            .collect();
        let shown = all.iter().filter(|thesis| thesis.created_at >= window.of(thesis.dataset)).take(recent);
        json!({
            "object": "token_activity", "token": token_ref(&token.row),
            "thesis_count_1h": self.window(id, now - HOUR_MS, now).len(),
            "thesis_count_24h": self.window(id, now - DAY_MS, now).len(),
            "unique_authors_24h": authors(&self.window(id, now - DAY_MS, now)),
            "last_activity_at": all.first().map(|thesis| iso(thesis.created_at)), "timeline": timeline,
            "recent_theses": shown.map(|thesis| self.thesis_row(thesis)).collect::<Vec<_>>(),
            "metrics_scope": "ingested", "livemode": self.sight.livemode(), "computed_at": iso(now),
        })
    }

    /// How fast theses on a token arrive.
    pub(super) fn velocity(self, token: &Token, now: i64) -> Value {
        let count = |from: i64, to: i64| self.window(text(&token.row, "id"), now - from, now - to).len();
        let (last, previous) = (count(HOUR_MS, 0), count(2 * HOUR_MS, HOUR_MS));
        let change = (previous > 0).then(|| (last as f64 - previous as f64) * 100.0 / previous as f64);
        json!({
            "object": "thesis_velocity", "token": token_ref(&token.row), "last_5m": count(5 * MINUTE_MS, 0),
            "last_1h": last, "previous_1h": previous, "change_pct": change, "metrics_scope": "ingested",
            "livemode": self.sight.livemode(), "computed_at": iso(now),
        })
    }
}

/// Descending by time, then id.
pub(super) fn newest_first(theses: &mut [&Thesis]) {
    theses.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
}

/// The newest of some theses.
pub(super) fn newest<'a>(theses: &[&'a Thesis]) -> Option<&'a Thesis> {
    theses.iter().copied().max_by_key(|thesis| (thesis.created_at, &thesis.id))
}

/// How many authors wrote these.
pub(super) fn authors(theses: &[&Thesis]) -> usize {
    theses.iter().map(|thesis| &thesis.profile).collect::<HashSet<_>>().len()
}

/// The answer to a question about one row, there or not.
pub(super) fn found(row: Option<Value>, missing: &str) -> Outcome {
    row.ok_or_else(|| Failure::of(missing))
}

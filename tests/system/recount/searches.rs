//! Search: no row that the key does not see, and soon all rows that hold the word.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thesis_proto::v1;

use super::{
    caller::Ask,
    customer::Customer,
    names::{References, WORDS, folded},
    view::{View, newest_first},
    world::{Thesis, World},
};
use crate::harness::{SOON, eventually, now_ms, text};

/// Most rows of each kind that a search gives.
const LIMIT: usize = 50;
/// Longest wait until a search finds new rows: a second is usual, and a machine may be busy.
const SOON_MS: i64 = 10_000;

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).map(folded)
}

fn hold(row: &Value, fields: &[&str], wanted: &str) -> bool {
    fields.iter().filter_map(|field| row[field].as_str()).flat_map(words).any(|word| word == wanted)
}

/// A search's answer; only its theses are in order.
fn recount(view: View<'_>, request: &v1::SearchRequest, now: i64) -> Value {
    let wanted = folded(&request.q);
    let from = view.sight.window(now);
    let profile = request.handle.as_ref().map(|handle| view.by_handle(handle));
    let holds = |thesis: &&Thesis| {
        thesis.created_at >= from.of(thesis.dataset)
            && words(&thesis.text).any(|word| word == wanted)
            && profile.is_none_or(|profile| profile == Some(thesis.profile.as_str()))
    };
    let mut theses: Vec<&Thesis> = view.theses().filter(holds).collect();
    newest_first(&mut theses);
    let theses: Vec<Value> = theses.into_iter().take(LIMIT).map(|thesis| view.thesis_row(thesis)).collect();
    let profiles = view.rows().flat_map(|rows| &rows.profiles).map(|profile| &profile.row);
    let profiles = profiles
        .filter(|row| profile.is_none_or(|profile| profile.is_some_and(|profile| row["id"] == profile)))
        .filter(|row| hold(row, &["handle", "display_name", "bio"], &wanted));
    let tokens = view.rows().flat_map(|rows| &rows.tokens);
    let tokens = tokens.filter(|token| hold(&token.row, &["symbol", "name", "address"], &wanted));
    let tokens = tokens.map(|token| view.token_row(token, now));
    let mut answer = json!({
        "object": "search_result", "query": request.q, "theses": theses, "profiles": profiles.collect::<Vec<_>>(),
        "tokens": tokens.collect::<Vec<_>>(), "livemode": view.sight.livemode(),
    });
    sort(&mut answer);
    answer
}

fn sort(answer: &mut Value) {
    for kind in ["profiles", "tokens"] {
        answer[kind].as_array_mut().expect("rows").sort_by_key(|row| text(row, "id").to_owned());
    }
}

/// Every row that a key may be shown, by its id.
fn visible(view: View<'_>) -> BTreeMap<String, Value> {
    let theses = view.theses().map(|thesis| view.thesis_row(thesis));
    let profiles = view.rows().flat_map(|rows| &rows.profiles).map(|profile| profile.row.clone());
    let tokens = view.rows().flat_map(|rows| &rows.tokens).map(|token| view.token_row(token, 0));
    theses.chain(profiles).chain(tokens).map(|row| (text(&row, "id").to_owned(), timeless(row))).collect()
}

/// A row without the field that changes with time.
fn timeless(mut row: Value) -> Value {
    row.as_object_mut().expect("a row").remove("recent_thesis_count");
    row
}

impl Customer {
    /// Searches for a word until all rows that hold it are found; no other row is ever found.
    pub(super) async fn search(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let references = References::of(view);
        let random = &mut self.random;
        let q = match random.below(4) {
            0 => references.handle(random).trim_start_matches('@').to_owned(),
            1 => random.pick(&["ALPHA", "gamma", "zap", "nimbus", "runner", "fresh", "mintone"]).to_owned(),
            _ => random.pick(&WORDS).to_owned(),
        };
        // A handle of several words would be a phrase; only its first word is searched.
        let q = q.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("run").to_owned();
        let handle = random.maybe(25, |random| references.handle(random));
        let request = v1::SearchRequest {
            q,
            handle,
            sort: v1::SearchSort::CreatedAtDesc.into(),
            limit: i32::try_from(LIMIT).ok(),
            ..v1::SearchRequest::default()
        };
        let ask = Ask::Search(request.clone());
        let over_grpc = random.chance(50);
        let (rows, deadline) = (visible(view), now_ms() + SOON_MS);
        let this = &*self;
        eventually("all that holds a word is found", SOON * 2, async || {
            let before = now_ms();
            let outcome = this.caller.ask(&ask, over_grpc).await;
            let after = now_ms();
            if outcome.as_ref().is_err_and(|failure| failure.code == "SERVICE_UNAVAILABLE") && after <= deadline {
                // Its index is not ready yet, which it must say instead of giving a partial answer.
                return None;
            }
            let Ok(mut found) = outcome else { this.differs(&ask, &outcome, &Ok(recount(view, &request, after))) };
            for row in ["theses", "profiles", "tokens"].iter().flat_map(|kind| found[kind].as_array().expect("rows")) {
                let as_it_is = rows.get(text(row, "id")) == Some(&timeless(row.clone()));
                assert!(as_it_is, "{} asked {ask:?} and was shown {row}", this.name);
            }
            sort(&mut found);
            let whole = (before..=after).any(|now| recount(view, &request, now) == found);
            if !whole && after > deadline {
                this.differs(&ask, &Ok(found), &Ok(recount(view, &request, after)));
            }
            whole.then_some(())
        })
        .await;
    }
}

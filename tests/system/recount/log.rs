//! Each dataset's events in their order: events of writes are predicted, derived events are recounted.

use serde_json::{Value, json};
use thesis_proto::v1;

use super::{
    caller::{Ask, rounded},
    customer::Customer,
    view::{DAY_MS, HOUR_MS, Sight, View, authors, newest},
    world::{Event, LIVE, PROJECTS, SANDBOX, World, source, token_ref},
};
use crate::harness::{iso, text, time};

/// Least time between two derived events of a token.
const DERIVED_EVERY_MS: i64 = 5_000;

/// The times of a row that the service sets.
pub(super) const SEEN: [&str; 2] = ["first_seen_at", "updated_at"];

/// Fills in the times that only the service knows, if they lie in a stretch of time.
pub(super) fn adopt(row: &mut Value, found: &Value, fields: &[&str], within: [i64; 2]) {
    for &field in fields {
        if row.get(field).is_some_and(Value::is_null) && found[field].is_string() {
            let at = time(found, field);
            assert!((within[0]..=within[1]).contains(&at), "{field} is not of {within:?}: {found}");
            row[field] = found[field].clone();
        }
    }
}

/// Whether an event is computed from others.
pub(super) fn is_derived(event: &Value) -> bool {
    ["token.activity", "token.thesis_velocity"].contains(&text(event, "type"))
}

/// The datasets that a dataset's derived events count.
fn counted_with(dataset: usize) -> Sight {
    let datasets = if dataset >= PROJECTS { vec![SANDBOX, dataset] } else { vec![dataset] };
    Sight { datasets, days: 10_000 }
}

/// Reads the new events of each log, by the key that sees it; the event of every write must be there.
pub(super) async fn learn(world: &mut World, customers: &mut [Customer], within: [i64; 2]) {
    // The customer who sees only the sandbox comes last: so it has seen all sandbox events that others have.
    let mut read = Vec::new();
    for customer in &mut *customers {
        let dataset = *customer.sight.datasets.last().expect("a dataset");
        read.push((dataset, customer.news(world).await));
    }
    let shared: Vec<Value> =
        read.iter().filter(|(dataset, _)| *dataset == SANDBOX).flat_map(|(_, news)| news.clone()).collect();
    for (dataset, news) in read {
        for event in news {
            if dataset == SANDBOX || !shared.contains(&event) {
                admit(world, dataset, event, within);
            }
        }
        assert!(world.datasets[dataset].owed.is_empty(), "not told: {:?}", world.datasets[dataset].owed);
    }
    for customer in customers {
        customer.catch_up(world);
    }
}

/// Takes the next event of a dataset.
fn admit(world: &mut World, dataset: usize, event: Value, within: [i64; 2]) {
    let (at, last) = (time(&event, "created_at"), world.datasets[dataset].log.last());
    assert!(last.is_none_or(|last| last.at <= at), "{last:?} then {event}");
    if is_derived(&event) {
        recount(world, dataset, &event);
    } else {
        let expected = world.datasets[dataset].owed.pop_front();
        let mut expected = expected.unwrap_or_else(|| panic!("nobody wrote {event}"));
        adopt(&mut expected, &event, &["created_at"], within);
        if expected["id"].is_null() {
            expected["id"] = event["id"].clone();
        }
        if let Some(profile) = expected["data"].get_mut("profile") {
            adopt(profile, &event["data"]["profile"], &SEEN, within);
        }
        assert_eq!(event, expected);
    }
    world.datasets[dataset].log.push(Event { dataset, at, row: event });
}

/// Compares a derived event with the rows that its readers see, if nothing was written since it was made.
fn recount(world: &World, dataset: usize, event: &Value) {
    let (sight, at) = (counted_with(dataset), time(event, "created_at"));
    let view = sight.of(world);
    let id = text(&event["data"]["token"], "id");
    let token = view.token(id).unwrap_or_else(|| panic!("its readers do not see the token of {event}"));
    let mut expected = json!({
        "object": "event", "id": event["id"], "type": event["type"], "created_at": event["created_at"],
        "livemode": dataset == LIVE, "source": if dataset == LIVE { "derived" } else { source(dataset) },
        "data": event["data"],
    });
    if at > world.quiet_since {
        expected["data"] = match text(event, "type") {
            "token.activity" => activity(view, &token.row, at),
            _ => velocity(view, &token.row, at),
        };
        if dataset >= PROJECTS {
            // A project's log names a token as its newest thesis there does; the sandbox may have renamed it since.
            for name in ["name", "symbol"] {
                expected["data"]["token"][name] = event["data"]["token"][name].clone();
            }
        }
    }
    let mut found = event.clone();
    for event in [&mut found, &mut expected] {
        if let Some(change) = event["data"]["change_pct"].as_f64() {
            event["data"]["change_pct"] = rounded(change);
        }
    }
    assert_eq!(found, expected, "a derived event of {}", world.datasets[dataset].name);
    let same = |other: &&Event| other.row["type"] == event["type"] && other.row["data"]["token"]["id"] == id;
    let before = world.datasets[dataset].log.iter().rev().find(same);
    assert!(before.is_none_or(|before| at - before.at >= DERIVED_EVERY_MS), "too soon: {event}");
}

fn activity(view: View<'_>, token: &Value, at: i64) -> Value {
    let id = text(token, "id");
    let all = view.window(id, i64::MIN / 2, at);
    let day = view.window(id, at - DAY_MS, at);
    let newest = newest(&all);
    json!({
        "token": token_ref(token), "thesis_count_1h": view.window(id, at - HOUR_MS, at).len(),
        "thesis_count_24h": day.len(), "unique_authors_24h": authors(&day),
        "latest_thesis_id": newest.map(|thesis| &thesis.id),
        "last_activity_at": newest.map(|thesis| iso(thesis.created_at)),
    })
}

fn velocity(view: View<'_>, token: &Value, at: i64) -> Value {
    let token = view.token(text(token, "id")).expect("a token that is seen");
    let whole = view.velocity(token, at);
    json!({
        "token": whole["token"], "last_5m": whole["last_5m"], "last_1h": whole["last_1h"],
        "previous_1h": whole["previous_1h"], "change_pct": whole["change_pct"], "computed_at": whole["computed_at"],
    })
}

impl Customer {
    /// Events that the world does not know yet, oldest first.
    async fn news(&mut self, world: &World) -> Vec<Value> {
        /// Least known events seen before reading stops: two logs' events may come a little out of order.
        const KNOWN: usize = 100;
        let known = world.events();
        let mut ask = v1::ListEventsRequest { limit: Some(100), ..v1::ListEventsRequest::default() };
        let (mut news, mut seen) = (Vec::new(), 0);
        loop {
            let (found, _) = self.ask(&Ask::Events(ask.clone())).await;
            let page = found.unwrap_or_else(|failure| panic!("{}: {failure:?}", self.name));
            for event in page["data"].as_array().expect("events") {
                if known.contains(text(event, "id")) {
                    seen += 1;
                } else {
                    news.push(event.clone());
                }
            }
            ask.cursor = page["next_cursor"].as_str().map(str::to_owned);
            if ask.cursor.is_none() || seen >= KNOWN {
                news.reverse();
                return news;
            }
        }
    }

    /// Demands that events it received ahead of the world are in a log that it sees.
    fn catch_up(&mut self, world: &World) {
        for (id, told) in std::mem::take(&mut self.ahead) {
            let mut logged = self.view(world).rows().flat_map(|rows| &rows.log);
            assert!(
                logged.any(|event| event.row == told),
                "{} was told of {id}, which is in no log it sees",
                self.name
            );
        }
    }
}

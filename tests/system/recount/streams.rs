//! Streams that are left and resumed from an old cursor, after later writes: they give exactly the events since then.

use std::collections::HashSet;

use serde_json::Value;
use thesis_proto::{names as wire, v1};

use super::{
    customer::Customer,
    history::{filter, matches, merged},
    log::is_derived,
    names::References,
    world::World,
};
use crate::harness::{Sse, now_ms, text, time};

/// A stream between two visits.
pub(super) struct Kept {
    types: Vec<v1::EventType>,
    filters: v1::EventFilters,
    query: String,
    /// Events appended after this time must come.
    opened: i64,
    /// The events received up to the cursor.
    told: HashSet<String>,
    at: At,
}

enum At {
    /// Open, and nothing read yet.
    Open(Box<Sse>),
    /// Left after the event with this cursor.
    Left(String),
}

fn query(types: &[v1::EventType], filters: &v1::EventFilters) -> String {
    let types: Vec<&str> = types.iter().map(|kind| wire::event_type_name(*kind)).collect();
    let given = [
        ("types", types.join(",")),
        ("token", filters.token.join(",")),
        ("handle", filters.handle.join(",")),
        ("chain", filters.chain.join(",")),
    ];
    let given = given.into_iter().filter(|(_, values)| !values.is_empty());
    let url = reqwest::Url::parse_with_params("http://edge", given).unwrap();
    format!("?{}", url.query().unwrap_or_default())
}

impl Customer {
    /// Opens a stream of all events and a filtered one.
    pub(super) async fn open_streams(&mut self, world: &World) {
        for filtered in [false, true] {
            let sight = self.sight.clone();
            let (types, filters) = match filtered {
                true => filter(&mut self.random, &References::of(sight.of(world))),
                false => Default::default(),
            };
            let types: Vec<v1::EventType> = types.into_iter().filter_map(|kind| kind.try_into().ok()).collect();
            let query = query(&types, &filters);
            let stream = self.caller.rest.stream(&query).await;
            let (opened, at) = (now_ms(), At::Open(Box::new(stream)));
            self.streams.push(Kept { types, filters, query, opened, told: HashSet::new(), at });
        }
    }

    /// Reads the missed events on one stream, and leaves it after any of them.
    pub(super) async fn resume(&mut self, world: &World) {
        let index = self.random.below(self.streams.len());
        let Kept { types, filters, query, opened, mut told, at } = self.streams.swap_remove(index);
        let sight = self.sight.clone();
        let missed = |told: &HashSet<String>| -> HashSet<&str> {
            let events = merged(sight.of(world)).into_iter();
            let events = events.filter(|event| event.at > opened);
            let events = events.filter(|event| matches(&event.row, &types, Some(&filters)));
            events.map(|event| text(&event.row, "id")).filter(|id| !told.contains(*id)).collect()
        };
        let mut left = missed(&told);
        if left.is_empty() {
            self.streams.push(Kept { types, filters, query, opened, told, at });
            return;
        }
        let mut stream = match at {
            At::Open(stream) => *stream,
            At::Left(cursor) => self.caller.rest.resume(&query, &cursor).await,
        };
        let mut frames: Vec<(String, Value)> = Vec::new();
        while !left.is_empty() {
            let frame = stream.next().await;
            let id = text(&frame.data, "id").to_owned();
            let again = told.contains(&id) || frames.iter().any(|(_, event)| event["id"] == *id);
            assert!(!again, "{} was told {id} again by {query}", self.name);
            if self.was_known(world, &frame.data, &types, Some(&filters)) {
                let expected = left.remove(id.as_str());
                // A derived event may have come between the opening and its answer.
                let early = is_derived(&frame.data) && time(&frame.data, "created_at") <= opened;
                assert!(expected || early, "{} was told {} by {query}", self.name, frame.data);
            }
            frames.push((frame.cursor().to_owned(), frame.data));
        }
        self.in_order(world, &frames);
        let last = self.random.below(frames.len());
        let cursor = frames[last].0.clone();
        told.extend(frames.into_iter().take(last + 1).map(|(_, event)| text(&event, "id").to_owned()));
        self.streams.push(Kept { types, filters, query, opened, told, at: At::Left(cursor) });
    }

    /// Each dataset's events come in the order of its log; there is no order between two datasets.
    fn in_order(&self, world: &World, frames: &[(String, Value)]) {
        for rows in self.view(world).rows() {
            let place = |(_, event): &(String, Value)| rows.log.iter().position(|known| known.row["id"] == event["id"]);
            let places: Vec<usize> = frames.iter().filter_map(place).collect();
            assert!(places.is_sorted(), "{} was told {} out of order: {frames:?}", self.name, rows.name);
        }
    }

    /// Another customer's cursor, or an invented one, opens no stream.
    pub(super) async fn misuse_stream(&mut self, foreign: &[(Vec<usize>, String)]) {
        let others: Vec<&String> =
            foreign.iter().filter(|(seen, _)| *seen != self.sight.datasets).map(|(_, cursor)| cursor).collect();
        if !others.is_empty() {
            let stolen = self.random.pick(&others);
            self.refuses_stream(stolen).await;
        }
    }

    /// A cursor opens no stream.
    pub(super) async fn refuses_stream(&self, cursor: &str) {
        let answer = self.caller.rest.get(&format!("/v1/events/stream?from_cursor={cursor}")).await;
        answer.error(400, "INVALID_CURSOR");
    }
}

impl Kept {
    /// Its cursor, once it has one.
    pub(super) fn cursor(&self) -> Option<&String> {
        match &self.at {
            At::Left(cursor) => Some(cursor),
            At::Open(_) => None,
        }
    }
}

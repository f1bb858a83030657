//! Past events: every combination of filters, merged over two datasets, pages with cursors that outlive writes.

use std::{cmp::Reverse, collections::HashSet};

use serde_json::Value;
use thesis_proto::{
    names,
    time::{from_millis, to_millis},
    v1,
};

use super::{
    caller::{Ask, Failure},
    customer::Customer,
    log::is_derived,
    names::{References, bound},
    random::Random,
    view::{GRACE_MS, Lower, View},
    world::{Event, World, claim, is_at, is_called},
};
use crate::harness::{now_ms, text};

/// A history that is partly read.
pub(super) struct HistoryWalk {
    request: v1::ListEventsRequest,
    cursor: String,
    /// The events of its pages; some may have left the history window meanwhile.
    whole: Vec<Value>,
    /// The ids of events that cannot have left it.
    certain: HashSet<String>,
    read: Vec<Value>,
}

/// Whether an event matches every dimension given, in any of its values.
pub(super) fn matches(event: &Value, types: &[v1::EventType], filters: Option<&v1::EventFilters>) -> bool {
    let any = |values: &[String], holds: &dyn Fn(&str) -> bool| values.is_empty() || values.iter().any(|v| holds(v));
    let none = v1::EventFilters::default();
    let filters = filters.unwrap_or(&none);
    let (token, handle) = (&event["data"]["token"], &event["data"]["profile"]["handle"]);
    let named = |reference: &str| {
        let exact = reference.split_once(':');
        let at = |address: &str| is_at(token, address);
        token.is_object()
            && (token["id"] == reference
                || exact.is_some_and(|(chain, place)| token["chain"] == chain && at(place))
                || (!reference.starts_with('$') && at(reference))
                || is_called(token, reference))
    };
    let by = |wanted: &str| handle.as_str().is_some_and(|handle| claim(handle) == claim(wanted));
    (types.is_empty() || types.iter().any(|kind| event["type"] == names::event_type_name(*kind)))
        && any(&filters.token, &named)
        && any(&filters.handle, &by)
        && any(&filters.chain, &|chain| token["chain"] == chain)
}

/// A filter of one or two dimensions.
pub(super) fn filter(random: &mut Random, references: &References<'_>) -> (Vec<i32>, v1::EventFilters) {
    let types: Vec<i32> = (1..=4).filter(|_| random.chance(40)).collect();
    let some = |random: &mut Random, make: &dyn Fn(&mut Random) -> String| {
        if random.chance(25) { (0..random.between(1, 3)).map(|_| make(random)).collect() } else { Vec::new() }
    };
    let filters = v1::EventFilters {
        token: some(random, &|random| references.any_token(random)),
        handle: some(random, &|random| references.handle(random)),
        chain: some(random, &|random| references.chain(random)),
        text: Vec::new(),
    };
    (types, filters)
}

/// The events that a key sees, newest first: by time, then dataset, then place in its log.
pub(super) fn merged(view: View<'_>) -> Vec<&Event> {
    let logs = view.sight.datasets.iter().flat_map(|dataset| {
        let log = view.world.datasets[*dataset].log.iter().enumerate();
        log.map(move |(place, event)| (event.at, *dataset, place, event))
    });
    let mut events: Vec<_> = logs.collect();
    events.sort_by_key(|(at, dataset, place, _)| Reverse((*at, *dataset, *place)));
    events.into_iter().map(|(_, _, _, event)| event).collect()
}

fn recount(view: View<'_>, request: &v1::ListEventsRequest, from: Lower) -> Vec<Value> {
    let to = request.created_before.as_ref().map_or(i64::MAX, to_millis);
    let types: Vec<v1::EventType> = request.types().collect();
    let inside = merged(view).into_iter().filter(|event| (from.of(event.dataset)..=to).contains(&event.at));
    let wanted = inside.filter(|event| matches(&event.row, &types, request.filters.as_ref()));
    wanted.map(|event| event.row.clone()).collect()
}

impl Customer {
    /// Asks for a new history.
    pub(super) async fn start_history(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let now = now_ms();
        let (types, filters) = filter(&mut self.random, &References::of(view));
        let random = &mut self.random;
        let request = v1::ListEventsRequest {
            types,
            filters: Some(filters),
            created_after: random.maybe(20, |random| from_millis(moment(random, view, now))),
            created_before: random.maybe(20, |random| from_millis(moment(random, view, now))),
            limit: random.maybe(85, |random| random.between(1, 60).try_into().unwrap_or(25)),
            cursor: None,
        };
        let ask = Ask::Events(request.clone());
        let (found, [before, after]) = self.ask(&ask).await;
        let explicit = request.created_after.as_ref().map(to_millis);
        let refused = |now: i64| {
            let ended = request.created_before.as_ref().is_some_and(|to| Some(to_millis(to)) < explicit);
            if ended { Some(Failure::of("VALIDATION_FAILED")) } else { sight.lower(explicit, now).err() }
        };
        match found {
            Err(failure) => {
                let agreed = [before, after].into_iter().any(|now| refused(now) == Some(failure.clone()));
                assert!(agreed, "{} asked {ask:?} and got {failure:?}", self.name);
            }
            Ok(page) => {
                assert!(refused(before).is_none() || refused(after).is_none(), "{} was shown {ask:?}", self.name);
                // A bound within the grace counts as the window's start.
                let from = |now: i64| {
                    let window = sight.window(now);
                    let bound = explicit.unwrap_or(i64::MIN);
                    let sandbox = explicit.map_or(i64::MIN, |bound| bound.max(window.others));
                    Lower { sandbox, others: bound.max(window.others) }
                };
                let (early, late) = (from(before), from(after));
                // Events that left the window may still come within the grace.
                let early = Lower { others: early.others - GRACE_MS, ..early };
                let walk = HistoryWalk {
                    whole: recount(view, &request, early),
                    certain: recount(view, &request, late).iter().map(|event| text(event, "id").to_owned()).collect(),
                    request,
                    cursor: String::new(),
                    read: Vec::new(),
                };
                self.read_page(world, walk, &page);
            }
        }
    }

    /// Reads on in a history.
    pub(super) async fn look_back(&mut self, world: &World) {
        if self.histories.is_empty() {
            return;
        }
        let index = self.random.below(self.histories.len());
        let walk = self.histories.swap_remove(index);
        let ask = Ask::Events(v1::ListEventsRequest { cursor: Some(walk.cursor.clone()), ..walk.request.clone() });
        let (found, _) = self.ask(&ask).await;
        let page = found.unwrap_or_else(|failure| panic!("{} asked {ask:?} and got {failure:?}", self.name));
        self.read_page(world, walk, &page);
    }

    fn read_page(&mut self, world: &World, mut walk: HistoryWalk, page: &Value) {
        let rows = page["data"].as_array().expect("events");
        let limit = walk.request.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(25);
        assert!(rows.len() <= limit && page["has_more"] == !page["next_cursor"].is_null(), "{page}");
        for event in rows {
            if self.was_known(world, event, &walk.request.types().collect::<Vec<_>>(), walk.request.filters.as_ref()) {
                walk.read.push(event.clone());
            }
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => {
                cursor.clone_into(&mut walk.cursor);
                self.histories.push(walk);
            }
            None => walk.is_whole(self.name),
        }
    }

    /// Whether an event is one that the world knows, of a dataset that the key sees; a derived one may be ahead of it.
    pub(super) fn was_known(
        &mut self,
        world: &World,
        event: &Value,
        types: &[v1::EventType],
        filters: Option<&v1::EventFilters>,
    ) -> bool {
        let id = text(event, "id");
        if let Some(known) = self.view(world).rows().flat_map(|rows| &rows.log).find(|known| known.row["id"] == id) {
            assert_eq!(*event, known.row, "{} was told it otherwise", self.name);
            return true;
        }
        let ahead = is_derived(event) && matches(event, types, filters) && !world.events().contains(id);
        assert!(ahead, "{} was told of {event}", self.name);
        self.ahead.insert(id.to_owned(), event.clone());
        false
    }

    /// Reads an event by its id, of any dataset.
    pub(super) async fn one_event(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let log = &world.datasets[References::of(view).dataset(&mut self.random)].log;
        if log.is_empty() {
            return;
        }
        let event = self.random.one_of(log);
        let id = &event.row["id"];
        let ask = Ask::Event(text(&event.row, "id").to_owned());
        let visible = view.rows().flat_map(|rows| &rows.log).any(|seen| seen.row["id"] == *id);
        let answer = self
            .expect(&ask, |now| {
                if !visible {
                    return Err(Failure::of("EVENT_NOT_FOUND"));
                }
                sight.may_read(event.dataset, event.at, now).map(|()| event.row.clone())
            })
            .await;
        self.says_nothing(world, answer.found, Ask::Event("evt_000000000000000000000000".to_owned())).await;
    }
}

/// A bound of a question: often an event's own time.
fn moment(random: &mut Random, view: View<'_>, now: i64) -> i64 {
    let events = merged(view);
    if events.is_empty() || random.chance(30) {
        return bound(random, view.world, now);
    }
    random.pick(&events).at + random.between(-1, 1)
}

impl HistoryWalk {
    pub(super) fn stolen(&self) -> Ask {
        Ask::Events(v1::ListEventsRequest { cursor: Some(self.cursor.clone()), ..self.request.clone() })
    }

    /// Events that existed at its first page came once and in order; others are only new derived events.
    fn is_whole(&self, name: &str) {
        let (read, late): (Vec<&Value>, Vec<&Value>) = self.read.iter().partition(|event| self.whole.contains(event));
        assert!(late.iter().all(|event| is_derived(event)), "{name} was told of {late:?} by {:?}", self.request);
        let is_owed = |event: &&Value| self.certain.contains(text(event, "id")) || self.read.contains(event);
        let whole = read.iter().copied().eq(self.whole.iter().filter(is_owed));
        assert!(whole, "{name} asked {:?}\nfound     {read:?}\nrecounted {:?}", self.request, self.whole);
    }
}

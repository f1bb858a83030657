//! A key and what it remembers between its questions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    caller::{Ask, Caller, Outcome},
    history::HistoryWalk,
    lists::ListWalk,
    random::Random,
    streams::Kept,
    view::{Sight, View},
    world::World,
};
use crate::harness::{SOON, eventually, now_ms, time};

/// An answer that a recount agrees with, and the first and last moment at which it may have been made.
pub(super) struct Answer {
    pub(super) found: Outcome,
    pub(super) moments: [i64; 2],
}

/// A key.
pub(super) struct Customer {
    pub(super) name: &'static str,
    pub(super) caller: Caller,
    pub(super) sight: Sight,
    pub(super) random: Random,
    /// Lists of theses that are partly read.
    pub(super) lists: Vec<ListWalk>,
    /// Histories that are partly read.
    pub(super) histories: Vec<HistoryWalk>,
    pub(super) streams: Vec<Kept>,
    /// Derived events that it received before the world knew them.
    pub(super) ahead: BTreeMap<String, Value>,
}

impl Customer {
    pub(super) fn view<'a>(&'a self, world: &'a World) -> View<'a> {
        self.sight.of(world)
    }

    /// Asks over REST or gRPC; only the search index may be behind, and says so.
    pub(super) async fn ask(&mut self, ask: &Ask) -> (Outcome, [i64; 2]) {
        let over_grpc = self.random.chance(50);
        let caller = &self.caller;
        eventually("an answer", SOON, async || {
            let before = now_ms();
            let found = caller.ask(ask, over_grpc).await;
            let behind = matches!(&found, Err(failure) if failure.code == "SERVICE_UNAVAILABLE");
            (!behind).then(|| (found, [before, now_ms()]))
        })
        .await
    }

    /// Asks, and demands the answer that a recount gives for a moment between question and answer.
    pub(super) async fn expect(&mut self, ask: &Ask, recount: impl Fn(i64) -> Outcome) -> Answer {
        let (found, mut between) = self.ask(ask).await;
        if let Some(at) = found.as_ref().ok().and_then(told_moment) {
            assert!((between[0]..=between[1]).contains(&at), "{} asked {ask:?} and got {found:?}", self.name);
            between = [at, at];
        }
        let shown = found.clone().map(as_recounted);
        match agreeing(between, |now| recount(now) == shown) {
            Some(moments) => Answer { found, moments },
            None => self.differs(ask, &shown, &recount(between[1])),
        }
    }

    /// Fails the test.
    pub(super) fn differs(&self, ask: &Ask, found: &Outcome, recounted: &Outcome) -> ! {
        let name = self.name;
        panic!("{name} asked {ask:?}\nfound     {}\nrecounted {}", show(found), show(recounted));
    }
}

/// The moment that an answer names as its own.
fn told_moment(answer: &Value) -> Option<i64> {
    let told = |object: &Value, field: &str| object.get(field).map(|_| time(object, field));
    told(answer, "computed_at").or_else(|| told(answer.get("freshness")?, "checked_at"))
}

/// The first and last moment that a recount agrees for. Time only takes rows out of a window, so if both ends agree,
/// all moments between do.
pub(super) fn agreeing(between: [i64; 2], agrees: impl Fn(i64) -> bool) -> Option<[i64; 2]> {
    if between.into_iter().all(&agrees) {
        return Some(between);
    }
    let first = (between[0]..=between[1]).find(|now| agrees(*now))?;
    let last = (first..=between[1]).take_while(|now| agrees(*now)).last()?;
    Some([first, last])
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(value) => value.to_string(),
        Err(failure) => format!("{failure:?}"),
    }
}

/// An answer with only the fact that it has a cursor or a time of the feed, which a recount cannot know.
pub(super) fn as_recounted(mut answer: Value) -> Value {
    for path in ["/next_cursor", "/freshness/upstream_synced_at"] {
        if let Some(told) = answer.pointer_mut(path)
            && told.is_string()
        {
            *told = json!(true);
        }
    }
    answer
}

/// A page as it is expected.
pub(super) fn page(data: Vec<Value>, more: bool) -> Value {
    json!({"object": "list", "data": data, "next_cursor": more.then_some(true), "has_more": more})
}

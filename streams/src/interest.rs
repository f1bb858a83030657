//! Finds the connections that an event may concern, so that the others stay asleep.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use thesis_proto::filter::{AwaitedKeys, CompiledFilter, EventKeys, Interest};

use crate::signal::Signal;

/// A connection that waits for events of one dataset.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) signal: Arc<Signal>,
    /// The position of the first unread event that may concern it; 0 for none.
    first: AtomicU64,
}

impl Listener {
    pub(crate) fn new(signal: Arc<Signal>, first: u64) -> Arc<Self> {
        Arc::new(Self { signal, first: AtomicU64::new(first) })
    }

    /// The position of the first unread event; `None` if there is none.
    pub(crate) fn first(&self) -> Option<u64> {
        Some(self.first.load(Ordering::Acquire)).filter(|first| *first > 0)
    }

    /// Sets the first unread position; 0 if there is none. No event may arrive during the call.
    pub(crate) fn read_up_to(&self, first: u64) {
        self.first.store(first, Ordering::Release);
    }

    /// Notes an event that may concern it; returns true if it is the first unread one.
    fn note(&self, position: u64) -> bool {
        self.first.compare_exchange(0, position, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// The listeners of one dataset, by the events that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// In the order of their numbers. Most properties have one listener, or all.
    by_interest: HashMap<Interest, Vec<(u64, Arc<Listener>)>>,
    awaited: AwaitedKeys,
    last: u64,
}

impl Listeners {
    /// Adds a listener; returns the number that removes it.
    pub(crate) fn add(&mut self, filter: &CompiledFilter, listener: &Arc<Listener>) -> u64 {
        self.last += 1;
        for interest in filter.interests() {
            self.awaited.add(&interest);
            self.by_interest.entry(interest).or_default().push((self.last, Arc::clone(listener)));
        }
        self.last
    }

    /// Removes a listener that was added with this filter.
    pub(crate) fn remove(&mut self, filter: &CompiledFilter, number: u64) {
        for interest in filter.interests() {
            self.awaited.remove(&interest);
            if let Some(listeners) = self.by_interest.get_mut(&interest) {
                if let Ok(place) = listeners.binary_search_by_key(&number, |(number, _)| *number) {
                    listeners.remove(place);
                }
                if listeners.is_empty() {
                    self.by_interest.remove(&interest);
                }
            }
        }
    }

    /// Returns the properties of an event that listeners wait for. A long text takes some time.
    pub(crate) fn interests(&self, keys: &EventKeys) -> Vec<Interest> {
        keys.interests(&self.awaited).filter(|interest| self.by_interest.contains_key(interest)).collect()
    }

    /// Notes an event with these properties at the listeners that it may concern, and collects those to wake.
    pub(crate) fn note_event(&self, interests: &[Interest], position: u64, woken: &mut Vec<Arc<Listener>>) {
        for interest in interests {
            for (_, listener) in self.by_interest.get(interest).into_iter().flatten() {
                if listener.note(position) {
                    woken.push(Arc::clone(listener));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thesis_proto::{
        filter::EventText,
        v1::{EventFilters, EventType, TokenRef},
    };

    use super::*;

    fn tokens() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["$Run", "run", "tk_1", "tk_2", "0xAb", "base:0xaB", "sol:0xab", "So1", "sol:So1"])
            .prop_map(str::to_owned)
    }

    fn events() -> impl Strategy<Value = EventKeys> {
        let token = (prop::sample::select(vec!["tk_1", "tk_2"]), 0..2_usize, 0..2_usize, 0..2_usize);
        let token = token.prop_map(|(id, symbol, chain, address)| TokenRef {
            id: id.to_owned(),
            symbol: ["$RUN", "$ß"][symbol].to_owned(),
            chain: ["base", "sol"][chain].to_owned(),
            address: ["0xAB", "So1"][address].to_owned(),
            ..TokenRef::default()
        });
        let handle = prop::sample::select(vec!["@Ann", "@bob"]).prop_map(str::to_owned);
        let text = prop::option::of(prop::sample::select(vec!["", "To the MOON!", "sun", "moon and sun"]));
        (1..=4_i32, prop::option::of(token), prop::option::of(handle), text).prop_map(|(kind, token, handle, text)| {
            let text = text.map(|text| EventText::new(text.to_owned()));
            EventKeys { event_type: EventType::try_from(kind).unwrap(), token, handle, text }
        })
    }

    fn filters() -> impl Strategy<Value = CompiledFilter> {
        let values = |all: &'static [&'static str]| {
            prop::collection::vec(prop::sample::select(all).prop_map(str::to_owned), 0..3)
        };
        let types = prop::collection::vec((1..=4_i32).prop_map(|kind| EventType::try_from(kind).unwrap()), 0..3);
        let texts = values(&["moon", "sun -moon", "mo*", "\"to the\" OR sun", "\"to the moon\""]);
        let tokens = prop::collection::vec(tokens(), 0..3);
        (types, tokens, values(&["ann", "@BOB"]), values(&["base", "sol"]), texts).prop_map(
            |(types, token, handle, chain, text)| {
                CompiledFilter::new(&types, Some(&EventFilters { token, handle, chain, text })).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn who_gets_an_event_hears_of_it(filter in filters(), keys in events()) {
            let mut listeners = Listeners::default();
            let listener = Listener::new(Arc::default(), 0);
            let number = listeners.add(&filter, &listener);
            let mut woken = Vec::new();
            let interests = listeners.interests(&keys);
            listeners.note_event(&interests, 7, &mut woken);
            if filter.matches_keys(&keys) {
                prop_assert_eq!((listener.first(), woken.len()), (Some(7), 1));
            }
            listeners.note_event(&interests, 8, &mut woken);
            prop_assert!(woken.len() <= 1, "woken once until it reads");
            listeners.remove(&filter, number);
            prop_assert!(listeners.by_interest.is_empty() && listeners.awaited == AwaitedKeys::default());
        }
    }

    #[test]
    fn others_sleep_on() {
        let mut listeners = Listeners::default();
        let filter = |token: &str| {
            let filters = EventFilters { token: vec![token.to_owned()], ..EventFilters::default() };
            CompiledFilter::new(&[], Some(&filters)).unwrap()
        };
        let (mine, other) = (Listener::new(Arc::default(), 0), Listener::new(Arc::default(), 0));
        listeners.add(&filter("$RUN"), &mine);
        listeners.add(&filter("$SEEK"), &other);
        let token = TokenRef { symbol: "$RUN".to_owned(), ..TokenRef::default() };
        let keys = EventKeys { token: Some(token), ..EventKeys::default() };
        listeners.note_event(&listeners.interests(&keys), 3, &mut Vec::new());
        assert_eq!((mine.first(), other.first()), (Some(3), None));
    }
}

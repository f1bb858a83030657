//! One dataset's newest events, and the connections that wait for more.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use thesis_proto::filter::CompiledFilter;

use crate::{
    interest::{Listener, Listeners},
    ring::{Entry, MissingEvents, Page, PositionTooOld, Ring},
    signal::Signal,
};

/// One dataset's newest events, and the connections that wait for more.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) dataset: String,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    listeners: Listeners,
}

impl Feed {
    /// A feed of the events after a position. It keeps at most `max_entries`.
    pub(crate) fn new(dataset: &str, position: u64, max_entries: usize) -> Self {
        let state = State { ring: Ring::new(position, max_entries), listeners: Listeners::default() };
        Self { dataset: dataset.to_owned(), state: RwLock::new(state) }
    }

    /// The position up to which the feed has read the log.
    pub(crate) fn position(&self) -> u64 {
        self.state.read().ring.position()
    }

    /// The position up to which a text may have been erased since the feed began; 0 if none was.
    pub(crate) fn erased(&self) -> u64 {
        self.state.read().ring.erased()
    }

    /// Forgets the events up to a position that the feed has reached: a text may have been erased from them. Returns
    /// false if it has forgotten them before.
    pub(crate) fn erase(&self, upto: u64) -> bool {
        self.state.write().ring.erase(upto)
    }

    /// True if the feed has every event after a position.
    pub(crate) fn covers(&self, after: u64) -> bool {
        self.state.read().ring.covers(after)
    }

    /// Counts the events after a position that pass a filter; none if it no longer has all of them.
    pub(crate) fn count(&self, after: u64, filter: &CompiledFilter) -> Option<u64> {
        self.state.read().ring.count(after, filter)
    }

    /// Approximate bytes of memory that its events take.
    pub(crate) fn bytes(&self) -> usize {
        self.state.read().ring.bytes()
    }

    /// Adds the next events, and wakes the connections that they may concern. Refuses a page before which events are
    /// missing.
    pub(crate) fn push(&self, page: Page) -> Result<(), MissingEvents> {
        let mut woken = Vec::new();
        // While this reads the texts, connections still read events, but no listener comes or goes.
        let state = self.state.upgradable_read();
        let interests = page.entries.iter().map(|entry| (entry.position, state.listeners.interests(&entry.keys)));
        let interests: HashMap<_, _> = interests.collect();
        let mut state = RwLockUpgradableReadGuard::upgrade(state);
        let State { ring, listeners } = &mut *state;
        ring.push(page, |entry| listeners.note_event(&interests[&entry.position], entry.position, &mut woken))?;
        drop(state);
        for listener in woken {
            listener.signal.wake();
        }
        Ok(())
    }

    /// Drops the oldest events, until the rest takes at most `max_bytes`.
    pub(crate) fn trim(&self, max_bytes: usize) {
        self.state.write().ring.trim(max_bytes);
    }

    /// Adds a listener after a position, if the feed still has every event after it.
    pub(crate) fn join(
        self: &Arc<Self>,
        after: u64,
        filter: &Arc<CompiledFilter>,
        signal: &Arc<Signal>,
    ) -> Option<Listening> {
        let mut state = self.state.write();
        if !state.ring.covers(after) {
            return None;
        }
        let waits = if after < state.ring.position() { after + 1 } else { 0 };
        let listener = Listener::new(Arc::clone(signal), waits);
        let number = state.listeners.add(filter, &listener);
        Some(Listening { feed: Arc::clone(self), filter: Arc::clone(filter), listener, number })
    }
}

/// A connection's registration among a feed's listeners. Its drop removes the listener.
#[derive(Debug)]
pub(crate) struct Listening {
    feed: Arc<Feed>,
    filter: Arc<CompiledFilter>,
    listener: Arc<Listener>,
    number: u64,
}

impl Listening {
    /// True if an unread event may pass the filter.
    pub(crate) fn has_events(&self) -> bool {
        self.listener.first().is_some()
    }

    /// Shows the matching events after a position, until `show` returns false or an event is not due. Returns the
    /// position reached.
    pub(crate) fn read(
        &self,
        after: u64,
        is_due: impl FnMut(&Entry) -> bool,
        mut show: impl FnMut(&Entry) -> bool,
    ) -> Result<u64, PositionTooOld> {
        let state = self.feed.state.read();
        // No event before the first noted one concerns it.
        let Some(first) = self.listener.first() else { return Ok(after.max(state.ring.position())) };
        let passes = |entry: &Entry| !self.filter.matches_keys(&entry.keys) || show(entry);
        let reached = state.ring.read(after.max(first - 1), is_due, passes)?;
        self.listener.read_up_to(if reached < state.ring.position() { reached + 1 } else { 0 });
        Ok(reached)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.feed.state.write().listeners.remove(&self.filter, self.number);
    }
}

//! The last day's theses on busy tokens in memory, where this process is the only writer, and in a writer for its own
//! dataset: every count of a token needs them, and they are too many to read each time. Index changes are told here, in
//! order, once written.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, RwLock};

use super::index_scope::{IndexScope, author_of};
use crate::{
    domain::{
        derivation::{self, Counts, TokenTheses},
        window::{DAY_MS, MINUTE_MS},
    },
    store::{Change, schema},
};

/// Least theses of a day for which a token's are kept; few in tests, so that all tests use this.
const BUSY: usize = if cfg!(test) { 2 } else { 64 };
/// Most tokens kept; when there are more, all are read again.
const TOKENS: usize = 2_000;
/// Time kept beyond a day, since the times of two readers differ a little.
const SLACK_MS: i64 = MINUTE_MS;
/// Longest time beyond a day that gathers before it is forgotten.
const FORGET_MS: i64 = 10 * MINUTE_MS;

/// A token's theses from a time on.
pub(super) struct Window {
    from: i64,
    /// The theses, complete once nothing is `missed`.
    pub(super) recent: TokenTheses,
    /// While the rows are being read: the changes told meanwhile.
    missed: Option<Vec<Moved>>,
}

/// A window that several may look at.
pub(super) type SharedWindow = Arc<RwLock<Window>>;

impl Window {
    /// Theses that were read, for one use.
    pub(super) fn read(recent: TokenTheses) -> SharedWindow {
        Arc::new(RwLock::new(Self { from: i64::MAX, recent, missed: None }))
    }
}

/// The last day's theses on a token in each dataset of a view.
pub struct TokenDay {
    windows: Vec<SharedWindow>,
    /// The place of the dataset that is kept up to date.
    own: usize,
}

impl TokenDay {
    pub(super) const fn new(windows: Vec<SharedWindow>, own: usize) -> Self {
        Self { windows, own }
    }

    /// Counts them at `at`.
    #[must_use]
    pub fn counts(&self, at: i64) -> Counts {
        // Recursive: a writer that waits for one window must not block two readers of both.
        let guards: Vec<_> = self.windows.iter().map(|window| window.read_recursive()).collect();
        let mut parts: Vec<&TokenTheses> = guards.iter().map(|window| &window.recent).collect();
        // The authors of all parts but the first must be looked up.
        parts.sort_unstable_by_key(|recent| std::cmp::Reverse(recent.len()));
        derivation::count(&parts, at)
    }

    /// A thesis came in the dataset that is kept up to date. Adding one twice changes nothing.
    pub fn came(&self, created_at: i64, id: &str, author: &str) {
        self.windows[self.own].write().recent.insert(created_at, id.to_owned(), author.to_owned());
    }

    /// A thesis went in the dataset that is kept up to date.
    pub fn went(&self, created_at: i64, id: &str) {
        self.windows[self.own].write().recent.remove(created_at, id);
    }
}

/// A thesis added to a token, or removed.
pub(super) struct Moved {
    key: String,
    created_at: i64,
    id: String,
    /// None when removed.
    author: Option<String>,
}

impl Moved {
    /// The move in a token's theses that a change makes, if any.
    pub(super) fn by(change: &Change) -> Option<Self> {
        let [dataset, scope, _, created_at, id] = change.key.as_slice() else { return None };
        if change.table.name != schema::THESIS_INDEX.name {
            return None;
        }
        Some(Self {
            key: key(dataset.text(), IndexScope::token_of(scope.text())?),
            created_at: created_at.int(),
            id: id.text().to_owned(),
            author: change.body.as_ref().map(author_of),
        })
    }

    fn apply(self, recent: &mut TokenTheses) {
        match self.author {
            Some(author) => recent.insert(self.created_at, self.id, author),
            None => recent.remove(self.created_at, &self.id),
        }
    }
}

fn key(dataset: &str, token: &str) -> String {
    format!("{dataset} {token}")
}

/// Windows by dataset and token.
#[derive(Default)]
pub(super) struct RecentTheses {
    windows: Mutex<HashMap<String, SharedWindow>>,
    /// The only dataset whose theses are kept; none for all.
    only: Option<String>,
}

/// A window whose rows are being read; forgotten if that fails.
pub(super) struct Filling<'a> {
    all: &'a RecentTheses,
    key: String,
    window: SharedWindow,
    kept: bool,
    /// The rows are wanted from this time on.
    pub(super) from: i64,
}

impl RecentTheses {
    /// Windows of one dataset.
    pub(super) fn of(dataset: &str) -> Self {
        Self { only: Some(dataset.to_owned()), ..Self::default() }
    }

    /// Whether a dataset's theses are kept.
    pub(super) fn covers(&self, dataset: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == dataset)
    }

    /// A token's theses, if they are kept and reach back a day from `at`.
    pub(super) fn get(&self, dataset: &str, token: &str, at: i64) -> Option<SharedWindow> {
        let window = Arc::clone(self.windows.lock().get(&key(dataset, token))?);
        let day = at - DAY_MS;
        let (complete, oldest) = {
            let window = window.read();
            (window.missed.is_none() && window.from <= day, window.recent.oldest())
        };
        if complete && oldest.is_some_and(|oldest| oldest < day - FORGET_MS) {
            let mut window = window.write();
            window.from = day - SLACK_MS;
            window.recent.forget_before(day - SLACK_MS);
        }
        complete.then_some(window)
    }

    /// Begins to keep a token's theses; none while another reader does so.
    pub(super) fn fill(&self, dataset: &str, token: &str, at: i64) -> Option<Filling<'_>> {
        let key = key(dataset, token);
        let from = at - DAY_MS - SLACK_MS;
        let mut windows = self.windows.lock();
        if windows.get(&key).is_some_and(|window| window.read().missed.is_some()) {
            return None;
        }
        if windows.len() >= TOKENS {
            windows.clear();
        }
        let window = Window { from, recent: TokenTheses::default(), missed: Some(Vec::new()) };
        let window = Arc::new(RwLock::new(window));
        windows.insert(key.clone(), Arc::clone(&window));
        Some(Filling { all: self, key, window, kept: false, from })
    }

    /// Takes in written changes.
    pub(super) fn tell(&self, moved: Vec<Moved>) {
        let windows = self.windows.lock();
        for moved in moved {
            let Some(window) = windows.get(&moved.key) else { continue };
            let mut window = window.write();
            if moved.created_at < window.from {
                continue;
            }
            match &mut window.missed {
                Some(missed) => missed.push(moved),
                None => moved.apply(&mut window.recent),
            }
        }
    }

    /// Forgets everything, since a write is in doubt.
    pub(super) fn clear(&self) {
        self.windows.lock().clear();
    }
}

impl Filling<'_> {
    /// Completes the window with the rows that were read, and keeps it if the token is busy.
    pub(super) fn with(mut self, rows: TokenTheses) -> SharedWindow {
        let mut window = self.window.write();
        window.recent = rows;
        for moved in window.missed.take().unwrap_or_default() {
            moved.apply(&mut window.recent);
        }
        self.kept = window.recent.len() >= BUSY;
        drop(window);
        Arc::clone(&self.window)
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let mut windows = self.all.windows.lock();
            if windows.get(&self.key).is_some_and(|window| Arc::ptr_eq(window, &self.window)) {
                windows.remove(&self.key);
            }
        }
    }
}

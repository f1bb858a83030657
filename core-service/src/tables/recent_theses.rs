//! A cache of the last day's theses on tokens. It exists where this process is the only writer, and in a writer for its
//! own dataset. Every count of a token needs these theses, and they are too many to read each time. The writer applies
//! index changes to the cache in order, after they are written.

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

/// A token with this number of theses in a day is busy. It is low in tests, so all tests use the cache.
const MIN_BUSY_THESES: usize = if cfg!(test) { 2 } else { 64 };
/// Maximum number of cached tokens. When there are more, only busy ones stay. If all are busy, all are read again.
const MAX_TOKENS: usize = 2_000;
/// Theses this much older than a day are cached too, since the times of two readers differ a little.
const SLACK_MS: i64 = MINUTE_MS;
/// Theses older than a day are forgotten when the oldest is this much older.
const FORGET_AFTER_MS: i64 = 10 * MINUTE_MS;

/// A token's theses from a time on.
pub(super) struct Window {
    from: i64,
    /// The theses. They are complete once `missed` is none.
    pub(super) recent: TokenTheses,
    /// The changes that were written while the rows are being read.
    missed: Option<Vec<ThesisMove>>,
}

/// A window that several counts share.
pub(super) type SharedWindow = Arc<RwLock<Window>>;

impl Window {
    /// A window of theses that were read for one use.
    pub(super) fn read(recent: TokenTheses) -> SharedWindow {
        Arc::new(RwLock::new(Self { from: i64::MAX, recent, missed: None }))
    }

    /// True if the token is busy, or may be as its theses are being read.
    fn is_busy(&self) -> bool {
        self.missed.is_some() || self.recent.len() >= MIN_BUSY_THESES
    }
}

/// The last day's theses on a token in each dataset of a view.
pub struct TokenDay {
    windows: Vec<SharedWindow>,
    /// Index of the dataset that is kept up to date.
    own: usize,
}

impl TokenDay {
    pub(super) const fn new(windows: Vec<SharedWindow>, own: usize) -> Self {
        Self { windows, own }
    }

    pub fn counts(&self, at: i64) -> Counts {
        self.counts_with(&TokenTheses::default(), at)
    }

    /// Counts like [`Self::counts`], with theses of the dataset that is kept up to date. The day may have some of them
    /// already.
    pub fn counts_with(&self, added: &TokenTheses, at: i64) -> Counts {
        // Recursive: a writer that waits for one window must not block two readers of both.
        let guards: Vec<_> = self.windows.iter().map(|window| window.read_recursive()).collect();
        let new = added.without(&guards[self.own].recent);
        let mut parts: Vec<&TokenTheses> = guards.iter().map(|window| &window.recent).chain([&new]).collect();
        // Counting looks up the authors of all parts but the first, so the largest part comes first.
        parts.sort_unstable_by_key(|recent| std::cmp::Reverse(recent.len()));
        derivation::count(&parts, at)
    }

    /// Removes a thesis from the dataset that is kept up to date.
    pub fn remove_thesis(&self, created_at: i64, id: &str) {
        self.windows[self.own].write().recent.remove(created_at, id);
    }
}

/// A thesis added to a token, or removed.
pub(super) struct ThesisMove {
    key: String,
    created_at: i64,
    id: String,
    /// None when removed.
    author: Option<String>,
}

impl ThesisMove {
    /// Reads the move of a token's thesis from a change of its index, if it is one.
    pub(super) fn of_change(change: &Change) -> Option<Self> {
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

/// A window whose rows are being read. It is forgotten if the read fails.
pub(super) struct WindowFill<'a> {
    all: &'a RecentTheses,
    key: String,
    window: SharedWindow,
    kept: bool,
    /// The rows are wanted from this time on.
    pub(super) from: i64,
}

impl RecentTheses {
    pub(super) fn of(dataset: &str) -> Self {
        Self { only: Some(dataset.to_owned()), ..Self::default() }
    }

    pub(super) fn covers(&self, dataset: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == dataset)
    }

    /// A token's theses, if they are cached and reach back a day from `at`.
    pub(super) fn get(&self, dataset: &str, token: &str, at: i64) -> Option<SharedWindow> {
        let window = Arc::clone(self.windows.lock().get(&key(dataset, token))?);
        let day = at - DAY_MS;
        let (complete, oldest) = {
            let window = window.read();
            (window.missed.is_none() && window.from <= day, window.recent.oldest())
        };
        if complete && oldest.is_some_and(|oldest| oldest < day - FORGET_AFTER_MS) {
            let mut window = window.write();
            window.from = day - SLACK_MS;
            window.recent.forget_before(day - SLACK_MS);
        }
        complete.then_some(window)
    }

    /// Begins to cache a token's theses. None while another reader does so.
    pub(super) fn start_fill(&self, dataset: &str, token: &str, at: i64) -> Option<WindowFill<'_>> {
        let key = key(dataset, token);
        let from = at - DAY_MS - SLACK_MS;
        let mut windows = self.windows.lock();
        if windows.get(&key).is_some_and(|window| window.read().missed.is_some()) {
            return None;
        }
        if windows.len() >= MAX_TOKENS {
            windows.retain(|_, window| window.read().is_busy());
        }
        if windows.len() >= MAX_TOKENS {
            windows.clear();
        }
        let window = Window { from, recent: TokenTheses::default(), missed: Some(Vec::new()) };
        let window = Arc::new(RwLock::new(window));
        windows.insert(key.clone(), Arc::clone(&window));
        Some(WindowFill { all: self, key, window, kept: false, from })
    }

    pub(super) fn apply(&self, moves: Vec<ThesisMove>) {
        let windows = self.windows.lock();
        for moved in moves {
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

    /// Forgets all windows, since a write is in doubt.
    pub(super) fn clear(&self) {
        self.windows.lock().clear();
    }
}

impl WindowFill<'_> {
    /// Completes the window with the rows that were read, and keeps it if the token is busy. A writer on a cluster
    /// keeps it in any case: without it, each of the token's derived events takes requests.
    pub(super) fn complete(mut self, rows: TokenTheses) -> SharedWindow {
        let mut window = self.window.write();
        window.recent = rows;
        for moved in window.missed.take().unwrap_or_default() {
            moved.apply(&mut window.recent);
        }
        self.kept = self.all.only.is_some() || window.is_busy();
        drop(window);
        Arc::clone(&self.window)
    }
}

impl Drop for WindowFill<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let mut windows = self.all.windows.lock();
            if windows.get(&self.key).is_some_and(|window| Arc::ptr_eq(window, &self.window)) {
                windows.remove(&self.key);
            }
        }
    }
}

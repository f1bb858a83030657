//! Judges rules while logs are read and time goes on. It is a function of the entries and the times alone, so reading
//! the same entries again leads to the same changes.
//!
//! A rule whose stored progress is ahead of this is held until the same entries are read and the same time is reached.
//! So a crossing that its log has is not found twice, and one that the log lacks is found.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    Alert, AlertChange, AlertProgress, Crossing, LogRead,
    token::{WatchedAlert, WatchedToken},
    window::TokenWindow,
};
use crate::domain::dataset::Dataset;

/// A thesis with the fields for counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedThesis {
    /// Time of the post, in unix milliseconds.
    pub created_at: i64,
    /// `th_…`
    pub id: String,
    /// Its author.
    pub author: String,
}

/// A token as the rules of a project see it. All projects see the same live theses, so their rules share a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct TokenKey {
    token: Arc<str>,
    /// The project of test data; empty for live data.
    project: Arc<str>,
}

impl TokenKey {
    fn of(alert: &Alert) -> Self {
        let project = if alert.live { "" } else { alert.project_id.as_str() };
        Self { token: alert.token.id.as_str().into(), project: project.into() }
    }
}

/// The rules of one environment.
#[derive(Debug)]
pub struct AlertWatch {
    at: i64,
    /// By dataset: the sequence number up to which its log is read.
    reads: BTreeMap<String, u64>,
    tokens: HashMap<TokenKey, WatchedToken>,
    /// The projects that watch a token.
    projects: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    keys: HashMap<String, TokenKey>,
    held: BTreeSet<String>,
    due: BTreeSet<(i64, TokenKey)>,
    changes: Vec<(AlertChange, Crossing)>,
}

impl AlertWatch {
    /// Begins at a time at which the logs are read up to these positions.
    #[must_use]
    pub fn new(at: i64, reads: BTreeMap<String, u64>) -> Self {
        Self {
            at,
            reads,
            tokens: HashMap::new(),
            projects: HashMap::new(),
            keys: HashMap::new(),
            held: BTreeSet::new(),
            due: BTreeSet::new(),
            changes: Vec::new(),
        }
    }

    /// The time that is reached.
    #[must_use]
    pub const fn at(&self) -> i64 {
        self.at
    }

    /// The sequence number up to which a log is read.
    #[must_use]
    pub fn read_upto(&self, dataset: &str) -> u64 {
        self.reads.get(dataset).copied().unwrap_or_default()
    }

    /// Notes that a log is read up to a position. The theses of all watched tokens must be those of this position.
    pub fn set_read(&mut self, dataset: &str, seq: u64) {
        self.reads.insert(dataset.to_owned(), seq);
        self.release();
    }

    /// True if the theses of the rule's token are known.
    #[must_use]
    pub fn has_token_of(&self, alert: &Alert) -> bool {
        self.tokens.contains_key(&TokenKey::of(alert))
    }

    /// The rule with this id as it is known.
    #[must_use]
    pub fn alert(&self, id: &str) -> Option<&Arc<Alert>> {
        self.tokens.get(self.keys.get(id)?)?.alert(id)
    }

    /// The ids of all rules.
    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.keys.keys()
    }

    /// Adds the token of a rule, with its theses of the last day and of later times as they were at the positions of
    /// the watch. Rules follow.
    pub fn add_token(&mut self, alert: &Alert, theses: impl IntoIterator<Item = WatchedThesis>) {
        let key = TokenKey::of(alert);
        let mut window = TokenWindow::new(self.at);
        for thesis in theses {
            window.insert(thesis.created_at, thesis.id, thesis.author);
        }
        self.projects.entry(Arc::clone(&key.token)).or_default().insert(Arc::clone(&key.project));
        self.tokens.insert(key, WatchedToken::new(window));
    }

    /// Adds a rule over a known token with its stored progress. A known rule keeps its progress and changes otherwise.
    pub fn set_alert(&mut self, alert: &Arc<Alert>, stored: AlertProgress) {
        let known = self.remove(&alert.id).map(|watched| watched.progress);
        let key = TokenKey::of(alert);
        let Some(token) = self.tokens.get_mut(&key) else { return };
        let progress = known.unwrap_or(stored);
        token.set(WatchedAlert { alert: Arc::clone(alert), progress, is_held: true });
        self.keys.insert(alert.id.clone(), key);
        self.held.insert(alert.id.clone());
        if self.is_reached(&alert.id) {
            self.release_one(&alert.id);
        }
    }

    /// Removes a rule. A token without rules goes with its last one.
    pub fn remove_alert(&mut self, id: &str) {
        let Some(key) = self.keys.get(id).cloned() else { return };
        self.remove(id);
        let Some(token) = self.tokens.get(&key).filter(|token| token.is_unused()) else { return };
        if let Some(due_at) = token.noted_due {
            self.due.remove(&(due_at, key.clone()));
        }
        self.tokens.remove(&key);
        if let Some(projects) = self.projects.get_mut(&key.token) {
            projects.remove(&key.project);
            if projects.is_empty() {
                self.projects.remove(&key.token);
            }
        }
    }

    fn remove(&mut self, id: &str) -> Option<WatchedAlert> {
        let key = self.keys.remove(id)?;
        self.held.remove(id);
        self.tokens.get_mut(&key)?.remove(id)
    }

    /// Reads the next entry of a log: its number, its time, and the thesis that it adds or removes.
    pub fn read(&mut self, dataset: &Dataset, seq: u64, created_at: i64, thesis: Option<EntryThesis<'_>>) {
        self.advance(created_at.max(self.last_held_change(dataset)));
        self.reads.insert(dataset.name().to_owned(), seq);
        if let Some(EntryThesis { token, is_added, thesis }) = thesis {
            for key in self.watching(dataset, token) {
                self.settle(&key, |window| {
                    if is_added {
                        window.insert(thesis.created_at, thesis.id.clone(), thesis.author.clone());
                    } else {
                        window.remove(thesis.created_at, &thesis.id);
                    }
                });
            }
        }
        self.release();
    }

    /// The watched tokens that a thesis of a dataset concerns.
    fn watching(&self, dataset: &Dataset, token: &str) -> Vec<TokenKey> {
        let Some((token, projects)) = self.projects.get_key_value(token) else { return Vec::new() };
        let sees = |project: &&Arc<str>| match dataset {
            Dataset::Live => project.is_empty(),
            Dataset::Sandbox => !project.is_empty(),
            of_project => of_project.project_id() == Some(&***project),
        };
        let keys = projects.iter().filter(sees);
        keys.map(|project| TokenKey { token: Arc::clone(token), project: Arc::clone(project) }).collect()
    }

    /// The next time at which time alone may change something.
    #[must_use]
    pub fn next_due(&self) -> Option<i64> {
        let held = self.held.iter().filter_map(|id| Some(self.held_until(id)?.0)).filter(|at| *at > self.at);
        self.due.first().map(|(due_at, _)| *due_at).into_iter().chain(held).min()
    }

    /// Lets time go on.
    pub fn advance(&mut self, to: i64) {
        while let Some(next) = self.next_due().filter(|next| *next <= to) {
            self.at = self.at.max(next);
            while let Some((due_at, key)) = self.due.first().filter(|(due_at, _)| *due_at <= self.at).cloned() {
                self.due.remove(&(due_at, key.clone()));
                self.settle(&key, |_| {});
            }
            self.release();
        }
        self.at = self.at.max(to);
    }

    /// Takes the changes that were found, in order.
    pub fn take_changes(&mut self) -> Vec<(AlertChange, Crossing)> {
        std::mem::take(&mut self.changes)
    }

    /// Changes a token's theses, moves its window to the present time, and judges the rules that this concerns.
    fn settle(&mut self, key: &TokenKey, change: impl FnOnce(&mut TokenWindow)) {
        let Some(token) = self.tokens.get_mut(key) else { return };
        change(&mut token.window);
        token.window.advance(self.at);
        for id in token.concerned(self.at) {
            judge(token, &id, self.at, &self.reads, &mut self.changes);
        }
        note_due(token, key, &mut self.due);
    }

    /// The time and the positions that a held rule waits for.
    fn held_until(&self, id: &str) -> Option<(i64, &[LogRead])> {
        let watched = self.tokens.get(self.keys.get(id)?)?.watched(id)?;
        Some((watched.progress.at.max(watched.alert.updated_at), watched.progress.reads.as_slice()))
    }

    /// The time of the last change of the held rules that count this log and whose entries are read. Each later entry
    /// of the log was judged at this time or later, if it was judged, although it may be older: clocks differ, and
    /// entries are read after their append. Nothing is known about entries of other logs.
    fn last_held_change(&self, dataset: &Dataset) -> i64 {
        let changes = self.held.iter().filter_map(|id| {
            let progress = &self.tokens.get(self.keys.get(id)?)?.watched(id)?.progress;
            let counts_log = progress.reads.iter().any(|read| read.dataset == dataset.name());
            let is_read = |read: &LogRead| self.read_upto(&read.dataset) >= read.seq;
            (counts_log && progress.reads.iter().all(is_read)).then_some(progress.at)
        });
        changes.max().unwrap_or(i64::MIN)
    }

    /// True if the moment that a held rule waits for is reached.
    fn is_reached(&self, id: &str) -> bool {
        let Some((at, reads)) = self.held_until(id) else { return true };
        at <= self.at && reads.iter().all(|read| self.read_upto(&read.dataset) >= read.seq)
    }

    /// Judges the held rules whose moment is reached.
    fn release(&mut self) {
        let reached: Vec<String> = self.held.iter().filter(|id| self.is_reached(id)).cloned().collect();
        for id in reached {
            self.release_one(&id);
        }
    }

    /// Judges a held rule, from now on too.
    fn release_one(&mut self, id: &str) {
        self.held.remove(id);
        let Some(key) = self.keys.get(id).cloned() else { return };
        // The rules that the time concerns beside it are judged with the values of now.
        self.settle(&key, |_| {});
        let Some(token) = self.tokens.get_mut(&key) else { return };
        if let Some(watched) = token.alert_mut(id) {
            watched.is_held = false;
        }
        judge(token, &Arc::from(id), self.at, &self.reads, &mut self.changes);
        note_due(token, &key, &mut self.due);
    }
}

/// The thesis that an entry adds to the counts of a token, or removes.
#[derive(Clone, Copy, Debug)]
pub struct EntryThesis<'a> {
    /// The token's id.
    pub token: &'a str,
    /// False if the thesis was deleted.
    pub is_added: bool,
    /// The thesis.
    pub thesis: &'a WatchedThesis,
}

fn judge(
    token: &mut WatchedToken,
    id: &Arc<str>,
    at: i64,
    reads: &BTreeMap<String, u64>,
    changes: &mut Vec<(AlertChange, Crossing)>,
) {
    let Some((progress, change)) = token.judge(id, at) else { return };
    let counted = change.counted();
    progress.reads = counted
        .datasets()
        .iter()
        .filter_map(|dataset| {
            let seq = *reads.get(dataset.name())?;
            Some(LogRead { dataset: dataset.name().to_owned(), seq })
        })
        .collect();
    let progress = progress.clone();
    changes.push(change.with(progress));
}

/// Notes the next time at which time alone may change something of a token.
fn note_due(token: &mut WatchedToken, key: &TokenKey, due: &mut BTreeSet<(i64, TokenKey)>) {
    let next = token.next_due();
    if next == token.noted_due {
        // It may have been taken because it was reached.
        due.extend(next.map(|next| (next, key.clone())));
        return;
    }
    if let Some(noted) = std::mem::replace(&mut token.noted_due, next) {
        due.remove(&(noted, key.clone()));
    }
    due.extend(next.map(|next| (next, key.clone())));
}

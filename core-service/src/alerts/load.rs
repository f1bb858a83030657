//! Loads the alerts with their stored progress, and the theses that they count.
//!
//! The rows of theses may be ahead of the position at which an alert is judged. So the entries behind that position are
//! taken back: what they added is left out, and what they removed is added.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Instant;

use super::{JUDGED, JUDGED_AT, Judge, PAGE, shared_dataset};
use crate::{
    domain::{
        alert::{Alert, AlertProgress, AlertWatch, WatchedThesis},
        dataset::Dataset,
        entry::{Entry, Kind},
        row::Thesis,
        window::{CLOCK_SKEW_MS, DAY_MS},
    },
    error::{Error, Result},
    log::datasets::Datasets,
    shared::Shared,
    store::Consistency,
    tables::{alerts, index_scope::IndexScope, theses::IndexSlice},
};

/// Number of tokens whose theses are read at the same time.
const CONCURRENT_READS: usize = 8;
/// Rows of one read.
const ROWS: usize = 1_000;
/// Alerts whose progress one read takes.
const ALERTS: usize = 100;

fn watched(thesis: &Thesis) -> WatchedThesis {
    WatchedThesis { created_at: thesis.created_at, id: thesis.id.clone(), author: thesis.profile_id.clone() }
}

/// The token and the thesis that an entry adds or removes, and whether it adds it.
pub(super) fn entry_thesis(entry: &Entry) -> Option<(String, bool, WatchedThesis)> {
    match entry.kind.as_ref()? {
        Kind::ThesisCreated(created) => Some((created.token.id.clone(), true, watched(&created.thesis))),
        Kind::ThesisDeleted(deleted) => Some((deleted.thesis.token_id.clone(), false, watched(&deleted.thesis))),
        _ => None,
    }
}

/// What the entries behind a position did to the theses of a log.
#[derive(Default)]
struct LaterChanges {
    added: HashSet<String>,
    /// By token.
    removed: HashMap<String, Vec<WatchedThesis>>,
}

impl LaterChanges {
    fn note(&mut self, entry: &Entry) {
        match entry_thesis(entry) {
            Some((_, true, thesis)) => drop(self.added.insert(thesis.id)),
            Some((token, false, thesis)) if !is_uncounted(entry) => self.removed.entry(token).or_default().push(thesis),
            _ => {}
        }
    }

    /// The theses of a token as they were at the position.
    fn take_back(&self, token: &str, rows: Vec<WatchedThesis>) -> impl Iterator<Item = WatchedThesis> {
        let removed = self.removed.get(token).into_iter().flatten().cloned();
        rows.into_iter().chain(removed).filter(move |thesis| !self.added.contains(&thesis.id))
    }
}

/// True for the deletion of a thesis that was deleted before it was observed, and so never counted.
fn is_uncounted(entry: &Entry) -> bool {
    let Some(Kind::ThesisDeleted(deleted)) = &entry.kind else { return false };
    deleted.thesis.removed_at == Some(deleted.thesis.recorded_at)
}

impl Judge {
    /// Begins at the stored checkpoint. Times before the oldest rule need no judgement.
    pub(super) async fn begin(shared: Arc<Shared>, datasets: Arc<Datasets>, live: bool) -> Result<Self> {
        shared.control.refresh().await?;
        let stored = shared.log.checkpoint(shared_dataset(live).name(), JUDGED_AT).await?;
        let mut judge = Self {
            watch: AlertWatch::new(0, BTreeMap::new()),
            followed: BTreeMap::new(),
            stored_at: i64::try_from(stored).unwrap_or(i64::MAX),
            unread: Vec::new(),
            known: None,
            store_by: Instant::now(),
            shared,
            datasets,
            live,
        };
        let oldest = judge.wanted().iter().map(|alert| alert.updated_at).min();
        let oldest = oldest.unwrap_or_else(|| judge.shared.clock.now_ms()) - CLOCK_SKEW_MS;
        judge.watch = AlertWatch::new(oldest.max(judge.stored_at), BTreeMap::new());
        Ok(judge)
    }

    /// Adds new rules, changes known ones and removes deleted ones, if the control log has changed.
    pub(super) async fn update_rules(&mut self) -> Result<()> {
        let version = {
            let state = self.shared.control.state();
            (state.alerts().changes(), state.judgements())
        };
        if self.known == Some(version) {
            return Ok(());
        }
        let wanted = self.wanted();
        let ids: HashSet<&str> = wanted.iter().map(|alert| alert.id.as_str()).collect();
        let gone: Vec<String> = self.watch.ids().filter(|id| !ids.contains(id.as_str())).cloned().collect();
        gone.iter().for_each(|id| self.watch.remove_alert(id));
        let is_new = |alert: &&Arc<Alert>| self.watch.alert(&alert.id).is_none_or(|known| known != *alert);
        let new: Vec<Arc<Alert>> = wanted.iter().filter(is_new).cloned().collect();
        self.follow_logs_of(&new).await?;
        self.load_tokens_of(&new).await?;
        for (alert, progress) in self.progress_of(new).await? {
            self.watch.set_alert(&alert, progress);
        }
        self.known = Some(version);
        Ok(())
    }

    /// Follows the logs that rules count, each from its checkpoint. Entries before the oldest rule, and before the time
    /// of the watch, are only counted.
    async fn follow_logs_of(&mut self, alerts: &[Arc<Alert>]) -> Result<()> {
        let mut oldest: BTreeMap<Dataset, i64> = BTreeMap::new();
        for alert in alerts {
            for dataset in alert.counted().datasets() {
                let at = oldest.entry(dataset.clone()).or_insert(alert.updated_at);
                *at = alert.updated_at.min(*at);
            }
        }
        oldest.retain(|dataset, _| !self.followed.contains_key(dataset));
        for (dataset, at) in oldest {
            let judged = self.shared.log.checkpoint(dataset.name(), JUDGED).await?;
            let projected = self.datasets.refresh(&dataset).await?;
            let from = at.max(self.watch.at()) - CLOCK_SKEW_MS;
            let before = self.shared.log.last_at(dataset.name(), projected, from).await?;
            self.follow_log(&dataset, judged.max(before), judged).await?;
        }
        Ok(())
    }

    /// Loads the theses of tokens that are not watched yet.
    async fn load_tokens_of(&mut self, alerts: &[Arc<Alert>]) -> Result<()> {
        // Live alerts of all projects count the same theses.
        let live = self.live;
        let key = |alert: &Arc<Alert>| {
            let project = if live { String::new() } else { alert.project_id.clone() };
            (alert.token.id.clone(), project)
        };
        let unknown = alerts.iter().filter(|alert| !self.watch.has_token_of(alert)).cloned();
        let mut unknown: Vec<Arc<Alert>> = unknown.collect();
        unknown.sort_by_cached_key(key);
        unknown.dedup_by(|one, other| key(one) == key(other));
        let (shared, from) = (&self.shared, self.watch.at() - DAY_MS);
        let reads = unknown.iter().map(|alert| async move {
            let mut parts = Vec::new();
            for dataset in alert.counted().datasets() {
                parts.push((dataset.clone(), read_theses(shared, dataset, &alert.token.id, from).await?));
            }
            Ok::<_, Error>((alert, parts))
        });
        let reads: Vec<_> = reads.collect();
        let loaded: Vec<_> = stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        let read: BTreeSet<Dataset> =
            loaded.iter().flat_map(|(_, parts)| parts.iter().map(|(dataset, _)| dataset.clone())).collect();
        let mut later = HashMap::new();
        for dataset in read {
            let changes = self.later_changes(&dataset).await?;
            later.insert(dataset, changes);
        }
        for (alert, parts) in loaded {
            let theses = parts.into_iter().flat_map(|(dataset, rows)| match later.get(&dataset) {
                Some(changes) => changes.take_back(&alert.token.id, rows).collect::<Vec<_>>(),
                None => rows,
            });
            self.watch.add_token(alert, theses);
        }
        Ok(())
    }

    /// Reads what the entries behind the read position did, up to the head: rows may be as new as that.
    async fn later_changes(&self, dataset: &Dataset) -> Result<LaterChanges> {
        let (log, mut after) = (&self.shared.log, self.watch.read_upto(dataset.name()));
        let head = log.head(dataset.name(), after, Consistency::Quorum).await?;
        let mut later = LaterChanges::default();
        while after < head {
            let end = head.min(after + PAGE as u64);
            log.entries(dataset.name(), after, end).await?.iter().for_each(|entry| later.note(&entry.entry));
            after = end;
        }
        Ok(later)
    }

    /// Reads the progress of alerts as their logs have it.
    async fn progress_of(&self, alerts: Vec<Arc<Alert>>) -> Result<Vec<(Arc<Alert>, AlertProgress)>> {
        let mut by_dataset: BTreeMap<Dataset, Vec<Arc<Alert>>> = BTreeMap::new();
        for alert in alerts {
            by_dataset.entry(alert.dataset()).or_default().push(alert);
        }
        let reads = by_dataset.iter().map(|(dataset, alerts)| async move {
            self.write_missing_rows(dataset).await?;
            let mut found = Vec::new();
            for some in alerts.chunks(ALERTS) {
                let ids: Vec<&str> = some.iter().map(|alert| alert.id.as_str()).collect();
                let progress = alerts::progress(&self.shared.backend, dataset.name(), &ids).await?;
                found.extend(some.iter().cloned().zip(progress));
            }
            Ok::<_, Error>(found)
        });
        let reads: Vec<_> = reads.collect();
        let found: Vec<_> = stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(found.concat())
    }

    /// Writes the rows of a log of alerts that its last writer left behind in a crash.
    async fn write_missing_rows(&self, dataset: &Dataset) -> Result<()> {
        let projected = self.datasets.refresh(dataset).await?;
        let head = self.shared.log.head(dataset.name(), projected, Consistency::Quorum).await?;
        if head > projected {
            // The writer writes them before its first append. Every entry is younger than this time.
            self.datasets.close_time_here(dataset, -1).await?;
        }
        Ok(())
    }
}

/// Reads the theses on a token in a dataset from a time on.
async fn read_theses(shared: &Shared, dataset: &Dataset, token: &str, from: i64) -> Result<Vec<WatchedThesis>> {
    let scope = IndexScope::Token(token.to_owned());
    let mut slice = IndexSlice { from, to: i64::MAX / 2, after: None, descending: false };
    let mut theses = Vec::new();
    loop {
        let rows = shared.theses.slice(dataset, &scope, &slice, ROWS).await?;
        slice.after = rows.last().map(|last| (last.created_at, last.id.clone()));
        let is_last = rows.len() < ROWS;
        theses.extend(rows.into_iter().map(|row| WatchedThesis {
            created_at: row.created_at,
            id: row.id,
            author: row.indexed.profile_id,
        }));
        if is_last {
            return Ok(theses);
        }
    }
}

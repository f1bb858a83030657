//! Builds the files of the days that have none, while this core leads the log.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
    time::Duration,
};

use thesis_net::metric::value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Archive, BuildError, build::SETTLE_MS, name_of};
use crate::{
    domain::{
        archive::{Day, FileKind},
        dataset::Dataset,
        window::{HOUR_MS, MINUTE_MS},
    },
    metrics::{ARCHIVE_BUILDS, ARCHIVE_MISSING},
    replicas::peers::Peers,
    tables::{archive_files, log::outline},
};

/// Time from the start of a core to its first search for days without files.
const START_DELAY: Duration = Duration::from_secs(10);
/// Interval between two searches for days without files.
const ROUND_INTERVAL: Duration = Duration::from_mins(1);
/// Milliseconds until a day that failed is tried again. They double with each failure, up to the maximum.
const MIN_RETRY_MS: i64 = MINUTE_MS;
const MAX_RETRY_MS: i64 = HOUR_MS;

/// How far a core has searched for days without files.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The day on which the search began with the first day of the log.
    begun_on: Option<Day>,
    /// The first day that it has not come to; none at the start.
    pub(super) next_day: Option<Day>,
    /// The days before that are not known to be complete.
    pub(super) open: BTreeSet<Day>,
    /// The next tries of the days that failed.
    retries: BTreeMap<Day, Retry>,
    /// True if the last try of a day found an import that runs.
    is_importing: bool,
}

/// The next try of a day.
#[derive(Clone, Copy, Debug)]
struct Retry {
    wait_ms: i64,
    at: i64,
    /// The entry that had listed the newest file when it failed; none if not all files were listed.
    newest_listed: Option<u64>,
}

impl Search {
    /// The next try of a day if it is later than now.
    fn postponed(&self, day: Day, now: i64) -> Option<Retry> {
        self.retries.get(&day).copied().filter(|retry| retry.at > now)
    }

    fn complete(&mut self, day: Day) {
        self.open.remove(&day);
        self.retries.remove(&day);
    }

    /// Postpones a day that failed. Returns for how many milliseconds.
    fn postpone(&mut self, day: Day, now: i64, newest_listed: Option<u64>) -> i64 {
        let wait_ms = self.retries.get(&day).map_or(MIN_RETRY_MS, |retry| (retry.wait_ms * 2).min(MAX_RETRY_MS));
        self.retries.insert(day, Retry { wait_ms, at: now + wait_ms, newest_listed });
        wait_ms
    }
}

/// Builds the files of a dataset while this core leads its log, until the core stops.
pub async fn run(archive: Arc<Archive>, peers: Arc<Peers>, dataset: Dataset, stop: CancellationToken) {
    let building = async {
        let mut search = Search::default();
        sleep(START_DELAY).await;
        loop {
            if !peers.leads(dataset.name()) {
                // The core that leads measures it.
                ARCHIVE_MISSING.at(dataset.name()).set(0.0);
                search = Search::default();
            } else if let Err(error) = archive.build_missing(&dataset, &mut search).await {
                ARCHIVE_BUILDS.at("failed").increment(1);
                tracing::warn!(%dataset, %error, "the first day of the archive is not found, trying again");
            }
            sleep(ROUND_INTERVAL).await;
        }
    };
    stop.run_until_cancelled(building).await;
}

impl Archive {
    /// Builds every day that is over and has no files, oldest first. Once a day it begins with the first day of the log
    /// again, since somebody may have deleted files in the storage. A day that fails holds up no other: a later call
    /// tries it again, after a longer and longer wait, or once new files are listed: an operator may build it at any
    /// core. Fails only if the first day of the log cannot be found.
    pub(super) async fn build_missing(&self, dataset: &Dataset, search: &mut Search) -> Result<(), BuildError> {
        let now = self.shared.clock.now_ms();
        let (today, end) = (Day::of(now), Day::of(now - SETTLE_MS));
        if search.begun_on != Some(today) {
            let retries = take(&mut search.retries);
            *search = Search { begun_on: Some(today), retries, ..Search::default() };
        }
        let start = match search.next_day {
            Some(day) => Some(day),
            None => self.first_day(dataset).await?,
        };
        let Some(mut day) = start else { return Ok(()) };
        while day < end {
            search.open.insert(day);
            day = day.next();
        }
        search.next_day = Some(day);
        let mut missing = Vec::new();
        for day in search.open.clone() {
            if let Some(retry) = search.postponed(day, now)
                && self.newest_listed(dataset, day).await <= retry.newest_listed
            {
                continue;
            }
            match self.is_complete(dataset, day).await {
                Ok(true) => search.complete(day),
                Ok(false) => missing.push(day),
                Err(error) => self.postpone(dataset, day, &error, search).await,
            }
        }
        let gauge = ARCHIVE_MISSING.at(dataset.name());
        gauge.set(value(search.open.len() as u64));
        let was_importing = take(&mut search.is_importing);
        for day in missing {
            match self.build(dataset, day).await {
                Ok(_) => {
                    ARCHIVE_BUILDS.at("built").increment(1);
                    search.complete(day);
                    gauge.set(value(search.open.len() as u64));
                }
                // No day can be built until the import ends.
                Err(error @ BuildError::Importing) => {
                    // An abandoned import never ends, so the line comes once a day instead of each minute.
                    if !was_importing {
                        tracing::warn!(%dataset, %day, %error, "no day of the archive is built, trying each minute");
                    }
                    search.is_importing = true;
                    break;
                }
                Err(error) => self.postpone(dataset, day, &error, search).await,
            }
        }
        Ok(())
    }

    /// Postpones a day that cannot be read or built, and says why.
    async fn postpone(&self, dataset: &Dataset, day: Day, error: &BuildError, search: &mut Search) {
        ARCHIVE_BUILDS.at("failed").increment(1);
        let newest_listed = self.newest_listed(dataset, day).await;
        let wait_seconds = search.postpone(day, self.shared.clock.now_ms(), newest_listed) / 1_000;
        tracing::warn!(%dataset, %day, %error, wait_seconds, "a day of the archive is not built, trying again later");
    }

    /// The day of the first entry of a log.
    pub(super) async fn first_day(&self, dataset: &Dataset) -> Result<Option<Day>, BuildError> {
        let Some(body) = self.shared.log.get(dataset.name(), 1).await? else { return Ok(None) };
        Ok(Some(Day::of(outline(&body)?.created_at)))
    }

    /// The entry that listed the newest file of a day; none unless all files are listed, and if the rows cannot be read.
    async fn newest_listed(&self, dataset: &Dataset, day: Day) -> Option<u64> {
        let listed = archive_files::of_day(&self.shared.backend, dataset.name(), &day.to_string()).await.ok()?;
        let newest = listed.iter().map(|listed| listed.seq).max();
        newest.filter(|_| listed.len() == FileKind::ALL.len())
    }

    /// Returns whether a day has all files, and the storage too.
    async fn is_complete(&self, dataset: &Dataset, day: Day) -> Result<bool, BuildError> {
        let listed = archive_files::of_day(&self.shared.backend, dataset.name(), &day.to_string()).await?;
        for archive_files::ArchivedFile { file, .. } in &listed {
            if !self.storage.has(&name_of(dataset, file), file.bytes).await? {
                return Ok(false);
            }
        }
        Ok(listed.len() == FileKind::ALL.len())
    }
}

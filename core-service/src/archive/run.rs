//! Builds the files of the days that have none, while this core leads the log.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use thesis_net::metric::value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Archive, BuildError, build::SETTLE_MS, name_of};
use crate::{
    domain::{
        archive::{Day, FileKind},
        dataset::Dataset,
    },
    metrics::{ARCHIVE_BUILDS, ARCHIVE_MISSING},
    replicas::peers::Peers,
    tables::{archive_files, log::outline},
};

/// Time from the start of a core to its first search for days without files.
const START_DELAY: Duration = Duration::from_secs(10);
/// Interval between two searches for days without files.
const ROUND_INTERVAL: Duration = Duration::from_mins(1);

/// How far a core has searched for days without files.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The day on which the search began with the first day of the log.
    begun_on: Option<Day>,
    /// The first day that it has not come to; none at the start.
    pub(super) next_day: Option<Day>,
    /// The days before that are not known to be complete.
    open: BTreeSet<Day>,
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
                tracing::warn!(%dataset, %error, "a day of the archive is not built, trying again");
            }
            sleep(ROUND_INTERVAL).await;
        }
    };
    stop.run_until_cancelled(building).await;
}

impl Archive {
    /// Builds every day that is over and has no files, oldest first. Once a day it begins with the first day of the log
    /// again, since somebody may have deleted files in the storage. A day that fails holds up no other: the next call
    /// tries it again. Returns the first error.
    pub(super) async fn build_missing(&self, dataset: &Dataset, search: &mut Search) -> Result<(), BuildError> {
        let now = self.shared.clock.now_ms();
        let (today, end) = (Day::of(now), Day::of(now - SETTLE_MS));
        if search.begun_on != Some(today) {
            *search = Search { begun_on: Some(today), ..Search::default() };
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
        let (mut missing, mut first_error) = (BTreeSet::new(), None);
        for day in search.open.clone() {
            match self.is_complete(dataset, day).await {
                Ok(true) => {
                    search.open.remove(&day);
                }
                Ok(false) => {
                    missing.insert(day);
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        let gauge = ARCHIVE_MISSING.at(dataset.name());
        gauge.set(value(missing.len() as u64));
        for day in missing.clone() {
            match self.build(dataset, day).await {
                Ok(_) => {
                    ARCHIVE_BUILDS.at("built").increment(1);
                    search.open.remove(&day);
                    missing.remove(&day);
                    gauge.set(value(missing.len() as u64));
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// The day of the first entry of a log.
    pub(super) async fn first_day(&self, dataset: &Dataset) -> Result<Option<Day>, BuildError> {
        let Some(body) = self.shared.log.get(dataset.name(), 1).await? else { return Ok(None) };
        Ok(Some(Day::of(outline(&body)?.created_at)))
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

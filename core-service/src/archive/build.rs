//! Builds the files of a day.

use std::{collections::HashMap, sync::Arc};

use parquet::errors::ParquetError;
use tokio::time::{Instant, sleep};

use super::{
    Archive,
    columns::WrittenFile,
    day::{DayWriter, LastChanges, LogPart},
    name_of,
    storage::StorageError,
};
use crate::{
    domain::{
        archive::{Day, FileKind},
        dataset::Dataset,
        entry::{ArchiveFile, SequencedEntry, erased_entries},
        row::Thesis,
        window::MINUTE_MS,
    },
    error::Error,
    store::{StoreError, StoreResult},
    tables::{
        archive_files,
        log::{LogStore, ROWS, outline},
    },
};

/// A day is over for good this long after midnight. No core's clock is so far behind, so no entry with a time of that
/// day comes later.
pub(super) const SETTLE_MS: i64 = 5 * MINUTE_MS;
/// The date of a thesis may lie this far ahead of its entry. Observations further ahead are refused.
const AHEAD_MS: i64 = 10 * MINUTE_MS;
/// Entries of one read.
const PAGE: u64 = 256;
/// A build rests this many times as long as each read and its work took. Appends share the processors and the store with
/// it, and may be at most a tenth slower; a day of a million theses still takes only minutes.
const REST: u32 = 5;
/// Entries of one read that searches for an erasure.
const ERASURE_PAGE: usize = 1_000;

/// A day that was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("a file for the archive cannot be written: {0}")]
    Scratch(#[from] ParquetError),
    #[error("the thread that writes files failed: {0}")]
    Thread(String),
    /// The log did not take the hash of a file.
    #[error(transparent)]
    Log(#[from] Error),
    /// The day is not over.
    #[error("the day is not over: its files can be built five minutes after midnight in UTC")]
    NotOver,
    /// The log is being copied from another service.
    #[error("a copy of another dataset is being imported, and its files can be built once it is whole")]
    Importing,
}

/// The files of a day before they are stored.
pub(super) struct WrittenDay {
    part: LogPart,
    pub(super) files: Vec<(FileKind, WrittenFile)>,
    /// The head of the log before the first entry was read. Files have what an erasure up to here left.
    head: u64,
}

impl Archive {
    /// Builds the files of a day, and lists them. What is built already stays as it is, unless an erasure changed it. A
    /// day before the first entry of the log has no files, so that a log without entries stays without.
    pub async fn build(&self, dataset: &Dataset, day: Day) -> Result<Vec<ArchiveFile>, BuildError> {
        let _turn = self.building.lock().await;
        loop {
            let Some(written) = self.write_day(dataset, day).await? else { return Ok(Vec::new()) };
            let position = written.part.upto;
            if let Some(files) = self.publish_day(dataset, day, written).await? {
                tracing::info!(%dataset, %day, position, "the files of a day are built");
                return Ok(files);
            }
            tracing::info!(%dataset, %day, "a text was erased while the files of a day were built, building them again");
        }
    }

    /// Writes the files of a day; none before the first entry of the log.
    pub(super) async fn write_day(&self, dataset: &Dataset, day: Day) -> Result<Option<WrittenDay>, BuildError> {
        // It reads the store, so that no old entries come into memory, and no entry of before an erasure from it.
        let log = LogStore::new(Arc::clone(&self.shared.backend));
        let head = self.demand_over(dataset, day).await?;
        if self.first_day(dataset).await?.is_none_or(|first| day < first) {
            return Ok(None);
        }
        let part = self.part(&log, dataset, day).await?;
        let changes = last_changes(&log, dataset, part).await?;
        let files = self.write(&log, dataset, day, part, &changes).await?;
        Ok(Some(WrittenDay { part, files, head }))
    }

    /// Stores and lists written files, and deletes those of the day that are not listed. Returns none if a text of
    /// their part of the log was erased since the files were begun: they may have it. Then no file of the day is
    /// stored, so the day counts as missing until it is built again. Other erasures do not matter, or a build that
    /// takes minutes might begin again for ever.
    pub(super) async fn publish_day(
        &self,
        dataset: &Dataset,
        day: Day,
        WrittenDay { part, files, mut head }: WrittenDay,
    ) -> Result<Option<Vec<ArchiveFile>>, BuildError> {
        let mut published = Vec::new();
        for (kind, written) in files {
            let file = self.store(dataset, day, part, kind, written).await?;
            if self.delete_erased(dataset, day, part, &mut head).await? {
                return Ok(None);
            }
            self.datasets.add_file_here(dataset, file.clone()).await?;
            published.push(file);
        }
        // An erasure may have begun between the last check and the entry of a file.
        if self.delete_erased(dataset, day, part, &mut head).await? {
            return Ok(None);
        }
        let listed = archive_files::of_day(&self.shared.backend, dataset.name(), &day.to_string()).await?;
        let names: Vec<_> = listed.iter().map(|listed| name_of(dataset, &listed.file)).collect();
        self.storage.keep_only(&format!("{dataset}/{day}"), &names).await?;
        Ok(Some(published))
    }

    /// Deletes the stored files of a day, listed or not, if the log has an erasure from their part after `head`.
    /// Returns whether it has one.
    async fn delete_erased(
        &self,
        dataset: &Dataset,
        day: Day,
        part: LogPart,
        head: &mut u64,
    ) -> Result<bool, BuildError> {
        let is_erased = self.erased_since(dataset, part, head).await?;
        if is_erased {
            self.storage.keep_only(&format!("{dataset}/{day}"), &[]).await?;
        }
        Ok(is_erased)
    }

    /// Stores a file, unless it is there.
    async fn store(
        &self,
        dataset: &Dataset,
        day: Day,
        part: LogPart,
        kind: FileKind,
        written: WrittenFile,
    ) -> Result<ArchiveFile, BuildError> {
        let WrittenFile { file, rows, bytes, sha256 } = written;
        let (date, kind) = (day.to_string(), kind.as_str().to_owned());
        let stored = ArchiveFile { date, kind, position: part.upto, rows, bytes, sha256 };
        let name = name_of(dataset, &stored);
        if !self.storage.has(&name, bytes).await? {
            self.storage.put(&name, file, bytes).await?;
        }
        Ok(stored)
    }

    /// Returns whether the log has an erasure from the part after `head`, which moves on to the present head.
    async fn erased_since(&self, dataset: &Dataset, part: LogPart, head: &mut u64) -> Result<bool, BuildError> {
        let log = LogStore::new(Arc::clone(&self.shared.backend));
        let present = self.datasets.refresh(dataset).await?;
        while *head < present {
            let page = log.read(dataset.name(), *head, present, ERASURE_PAGE).await?;
            let missing = || StoreError::Unavailable(format!("log {dataset} could not be read up to {present}"));
            *head = page.last().ok_or_else(missing)?.0;
            if page.iter().filter_map(|(_, body)| erased_entries(body)).any(|erased| part.overlaps(&erased)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a day that may get more entries. Returns the head of the log.
    async fn demand_over(&self, dataset: &Dataset, day: Day) -> Result<u64, BuildError> {
        if self.shared.clock.now_ms() < day.next().start_ms() + SETTLE_MS {
            return Err(BuildError::NotOver);
        }
        let head = self.datasets.refresh(dataset).await?;
        if self.shared.log.import(dataset.name()).await?.is_some_and(|import| head < import.entries) {
            return Err(BuildError::Importing);
        }
        Ok(head)
    }

    /// Finds the part of the log that the files of a day are about.
    async fn part(&self, log: &LogStore, dataset: &Dataset, day: Day) -> StoreResult<LogPart> {
        let head = self.shared.log.checkpoint(dataset.name(), ROWS).await?;
        let upto = self.end_of(log, dataset, day, head).await?;
        let after = self.end_of(log, dataset, day.previous(), head).await?.min(upto);
        let theses_after = position_before(log, dataset, day.start_ms() - AHEAD_MS, head).await?.min(after);
        Ok(LogPart { theses_after, after, upto })
    }

    /// The position of the last entry of a day: the one that its files name, or else that of the last entry with a time
    /// of the day.
    async fn end_of(&self, log: &LogStore, dataset: &Dataset, day: Day, head: u64) -> StoreResult<u64> {
        let listed = archive_files::of_day(&self.shared.backend, dataset.name(), &day.to_string()).await?;
        match listed.first() {
            Some(listed) => Ok(listed.file.position),
            None => position_before(log, dataset, day.next().start_ms(), head).await,
        }
    }

    /// Writes the files of a day. It takes as long a rest after each page as the page took, so that the store and the
    /// processors stay free for appends.
    async fn write(
        &self,
        log: &LogStore,
        dataset: &Dataset,
        day: Day,
        part: LogPart,
        changes: &LastChanges,
    ) -> Result<Vec<(FileKind, WrittenFile)>, BuildError> {
        let (owned, scratch) = (dataset.clone(), self.scratch.clone());
        let begin = move || DayWriter::new(&owned, day, part, || tempfile::tempfile_in(&scratch));
        let mut writer = self.run_on_thread(begin).await?;
        let mut after = part.theses_after;
        while after < part.upto {
            let started = Instant::now();
            let to = part.upto.min(after + PAGE);
            let entries = log.entries(dataset.name(), after, to).await?;
            let current = current_theses(log, dataset, day, &entries, changes).await?;
            writer = self
                .run_on_thread(move || {
                    for entry in &entries {
                        writer.add(entry, current.get(&entry.seq))?;
                    }
                    Ok(writer)
                })
                .await?;
            after = to;
            sleep(started.elapsed() * REST).await;
        }
        self.run_on_thread(move || writer.finish()).await
    }

    async fn run_on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> parquet::errors::Result<T> + Send + 'static,
    ) -> Result<T, BuildError> {
        let done = self.threads.run(work).await.map_err(|error| BuildError::Thread(error.to_string()))?;
        Ok(done?)
    }
}

/// The position of the last entry before a time: the times of a log never go back.
async fn position_before(log: &LogStore, dataset: &Dataset, at: i64, head: u64) -> StoreResult<u64> {
    let (mut low, mut high) = (0, head);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let body = log.get(dataset.name(), middle).await?;
        let body = body.ok_or_else(|| StoreError::Damaged(format!("log {dataset} has no entry {middle}")))?;
        if outline(&body)?.created_at < at { low = middle } else { high = middle - 1 }
    }
    Ok(low)
}

/// Reads what the entries of a part changed.
async fn last_changes(log: &LogStore, dataset: &Dataset, part: LogPart) -> StoreResult<LastChanges> {
    let mut changes = LastChanges::default();
    let mut after = part.theses_after;
    while after < part.upto {
        let started = Instant::now();
        let to = part.upto.min(after + PAGE);
        log.entries(dataset.name(), after, to).await?.iter().for_each(|entry| changes.note(entry));
        after = to;
        sleep(started.elapsed() * REST).await;
    }
    Ok(changes)
}

/// Reads the theses of the day that these entries create and later ones change, by the sequence number of the creation.
async fn current_theses(
    log: &LogStore,
    dataset: &Dataset,
    day: Day,
    entries: &[SequencedEntry],
    changes: &LastChanges,
) -> StoreResult<HashMap<u64, Thesis>> {
    let created = entries.iter().filter(|created| DayWriter::creates_thesis(day, &created.entry));
    let changed: Vec<_> = created.filter_map(|created| Some((created.seq, changes.of(created.seq)?))).collect();
    let places: Vec<_> = changed.iter().map(|(_, seq)| (dataset.name(), *seq)).collect();
    let found = log.entries_at(&places).await?;
    let theses =
        changed.iter().zip(found).filter_map(|((created, _), entry)| Some((*created, entry.kind?.into_thesis()?)));
    Ok(theses.collect())
}

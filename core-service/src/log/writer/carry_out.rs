//! Carries out a batch of commands: drafts the entries that they add, appends them, and begins to write their rows.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join;
use tokio::sync::oneshot;

use super::{
    CommandOutcome, DERIVED, Writer,
    command::Command,
    draft::{Draft, EntryPlace},
    handle::Job,
    observe::{DraftResult, observe},
};
use crate::{
    domain::{
        entry::{Entry, SequencedEntry},
        event_id::thesis_event_id,
    },
    error::{Error, Result},
    log::projection::{PreparedRows, has_deletion, makes_prolific},
    metrics::APPENDED,
    store::{StoreError, StoreResult},
    tables::log::{AppendOutcome, ImportMark, checkpoint_change, room},
};

/// Minimum number of commands for which rows are read at once, if there are as many.
const MIN_CANDIDATES: usize = 8;

impl Writer {
    /// Number of the first jobs that one append may take: rows are read for no others. It is at most twice the number
    /// that the last append took. An import is always alone.
    fn candidates(&self, jobs: &[Job]) -> usize {
        let mut space = self.space(0);
        let fit = jobs
            .iter()
            .take(2 * self.last_carried_out)
            .take_while(|job| !matches!(job.command, Command::Import(_)) && space.take(1, job.command.payload_bytes()));
        fit.count().max(jobs.len().min(1))
    }

    /// Carries out the first jobs, as many as one append takes. Their callers get responses once the rows are written.
    /// The other jobs stay.
    pub(super) async fn write(&mut self, jobs: &mut Vec<Job>) {
        let candidates = self.candidates(jobs);
        match self.carry_out(&jobs[..candidates]).await {
            Ok(Some(written)) => {
                self.last_carried_out = written.len().max(MIN_CANDIDATES);
                let carried_out = jobs.drain(..written.len()).map(|job| job.response);
                self.respond(carried_out.zip(written).collect());
            }
            Ok(None) => {
                for job in jobs.drain(..candidates) {
                    drop(job.response.send(Err(Error::importing())));
                }
            }
            Err(error) => {
                self.current = false;
                tracing::warn!(dataset = self.name, %error, "an append failed");
                fail_all(jobs.drain(..candidates), &error);
            }
        }
    }

    /// Responds to callers once the rows of all batches so far are written. A command that added no entry may have
    /// found one in a batch under way.
    fn respond(&self, outcomes: Vec<(oneshot::Sender<Result<CommandOutcome>>, CommandOutcome)>) {
        let rows = self.under_way.newest();
        tokio::spawn(async move {
            let written = match rows {
                Some(rows) => rows.await,
                None => Ok(()),
            };
            for (response, outcome) in outcomes {
                let outcome = written.as_ref().map(|_| outcome).map_err(Error::unavailable);
                drop(response.send(outcome));
            }
        });
    }

    /// Drafts the entries that the first commands add, as many as fit into one append, and appends them. Returns the
    /// results of these commands, in order. None while an import into the dataset is not complete.
    async fn carry_out(&mut self, jobs: &[Job]) -> StoreResult<Option<Vec<CommandOutcome>>> {
        if let [Job { command: Command::Import(import), .. }] = jobs {
            return Ok(Some(vec![self.import(import).await?]));
        }
        loop {
            if self.is_importing() && !self.import_has_ended().await? {
                return Ok(None);
            }
            let mut entries = Vec::new();
            if self.joins_derived() {
                entries = self.derived_entries(room(self.head).saturating_sub(Command::MAX_ENTRIES) / 2);
            }
            let mut space = self.space(entries.len());
            let mut draft = Draft::new(&self.shared, &self.name, &self.known, self.head, self.last_created_at, entries)
                .after(self.under_way.entries());
            draft.lookup(jobs.iter().map(|job| &job.command)).await?;
            let mut drafted = Vec::with_capacity(jobs.len());
            for job in jobs {
                let before = draft.entries.len();
                let result = draft_command(&mut draft, &job.command).await?;
                if !space.take_for(&draft.entries[before..]) && !drafted.is_empty() {
                    // No later command may see the state after these entries.
                    draft.entries.truncate(before);
                    break;
                }
                drafted.push(result);
            }
            let mut entries = draft.into_entries();
            if entries.len() > room(self.head) {
                // One command's entries do not fit into the rest of the bucket, and a batch never spans two.
                self.fill().await?;
                continue;
            }
            if !self.joins_derived() {
                self.add_derived(&mut entries, &mut space);
            }
            if entries.is_empty() {
                // The entries found may be another writer's, with rows not written yet.
                self.follow_others(false).await?;
                self.under_way.note_empty();
            }
            let Some(appended) = self.append(entries).await? else { continue };
            let mut written = Vec::with_capacity(drafted.len());
            for DraftResult { id, place, event_id, refused, was_known } in drafted {
                let entry = match place {
                    EntryPlace::New(index) => Some(appended[index].clone()),
                    EntryPlace::Logged(seq) => Some(self.entry_at(seq).await?),
                    EntryPlace::Nowhere => None,
                };
                let applied = matches!(place, EntryPlace::New(_));
                written.push(CommandOutcome { id, entry, applied, event_id, refused, was_known });
            }
            return Ok(Some(written));
        }
    }

    /// Fills the rest of a bucket.
    pub(super) async fn fill(&mut self) -> StoreResult<()> {
        let created_at = self.shared.clock.now_ms().max(self.last_created_at);
        let places = self.head + 1..=self.head + room(self.head) as u64;
        self.append(places.map(|seq| Entry::filler(seq, created_at)).collect()).await.map(|_| ())
    }

    /// Appends entries computed from the state at the head, and begins to write their rows. None when another writer
    /// was faster: the state has changed then, and the entries must be computed again.
    pub(super) async fn append(&mut self, entries: Vec<Entry>) -> StoreResult<Option<Arc<Vec<SequencedEntry>>>> {
        self.append_marked(entries, None).await
    }

    /// Like [`Self::append`], for entries of an import; `mark` identifies the import.
    pub(super) async fn append_marked(
        &mut self,
        mut entries: Vec<Entry>,
        mark: Option<ImportMark>,
    ) -> StoreResult<Option<Arc<Vec<SequencedEntry>>>> {
        if entries.is_empty() {
            return Ok(Some(Arc::default()));
        }
        if mark.is_none() {
            for entry in &mut entries {
                entry.salt = vec![0; Entry::SALT_BYTES];
                self.shared.ids.fill(&mut entry.salt);
            }
        }
        let entries: Arc<Vec<SequencedEntry>> =
            Arc::new((self.head + 1..).zip(entries).map(|(seq, entry)| SequencedEntry { seq, entry }).collect());
        self.current = false;
        self.under_way.make_room().await?;
        let Some(rows) = self.append_and_prepare(&entries, mark.as_ref()).await? else {
            self.follow_others(true).await?;
            self.current = true;
            return Ok(None);
        };
        let derived = self.pending.settled_with(&entries);
        self.begin_rows(&entries, rows, derived);
        if has_deletion(&entries) {
            // The theses in memory, from which derived events are counted, have no deletions that are under way.
            self.under_way.finish().await?;
        }
        self.import.get_or_insert(mark);
        if let Some(seq) = derived {
            self.pending.note_stored(seq);
        }
        self.apply_entries(&entries, 0);
        self.own_head = self.head;
        self.current = true;
        APPENDED.one().increment(entries.len() as u64);
        Ok(Some(entries))
    }

    /// Appends entries, and prepares their rows meanwhile. None when another writer was faster. After an error, entries
    /// that reached the log anyway are projected later.
    async fn append_and_prepare(
        &mut self,
        entries: &[SequencedEntry],
        mark: Option<&ImportMark>,
    ) -> StoreResult<Option<PreparedRows>> {
        self.unfinished_mark.set().await?;
        let bodies: Vec<Bytes> = entries.iter().map(|of| of.entry.stored(of.seq).into()).collect();
        let mut batch = [0; 16];
        self.shared.ids.fill(&mut batch);
        let append = self.shared.log.append_marked(&self.name, self.head, batch, &bodies, mark);
        let (projector, under_way) = (&self.projector, &mut self.under_way);
        let prepare = async {
            if makes_prolific(entries) {
                // It reads the rows of all earlier entries.
                under_way.finish().await?;
            }
            projector.prepare(entries).await
        };
        // The append begins first. The embedded store works on it while the rows are prepared.
        let (appended, prepared) = join(append, prepare).await;
        // If this core was suspended during the append, another one may have removed its mark.
        let appended = self.unfinished_mark.set().await.and(appended);
        if !matches!((&appended, &prepared), (Ok(AppendOutcome::Done), Ok(_))) {
            self.projector.forget_prepared();
        }
        match appended? {
            AppendOutcome::Done => prepared.map(Some),
            AppendOutcome::Lost => Ok(None),
        }
    }

    /// Begins to write the rows of entries that the log has, with the checkpoint of derived events if it moves. Readers
    /// see the entries once the rows are written.
    fn begin_rows(&mut self, entries: &Arc<Vec<SequencedEntry>>, rows: PreparedRows, derived: Option<u64>) {
        let beside = derived.map(|seq| checkpoint_change(&self.name, DERIVED, seq)).into_iter().collect::<Vec<_>>();
        let (projector, position, written) = (Arc::clone(&self.projector), self.position.clone(), Arc::clone(entries));
        self.under_way.add(Arc::clone(entries), async move {
            projector.write(&written, rows, beside).await?;
            if let Some(last) = written.last() {
                position.note_written(last.seq);
            }
            Ok(())
        });
    }
}

async fn draft_command(draft: &mut Draft<'_>, command: &Command) -> StoreResult<DraftResult> {
    Ok(match command {
        Command::Create(new) => {
            let event_id = thesis_event_id(&new.thesis.id);
            let place = match draft.place_of_creation(&new.thesis.id) {
                Some(place) => place,
                None => draft.create(event_id.clone(), new).await?,
            };
            DraftResult { event_id: Some(event_id), place, ..DraftResult::nothing(new.thesis.id.clone()) }
        }
        Command::Observe(observation) => observe(draft, observation).await?,
        Command::DeleteSurplus { id, limit } => {
            let place = draft.delete_surplus(id, *limit).await?;
            DraftResult { place, ..DraftResult::nothing(id.clone()) }
        }
        Command::EraseText { id } => {
            let place = draft.erase_text(id).await?;
            DraftResult { place, ..DraftResult::nothing(id.clone()) }
        }
        Command::CloseTime { at } => {
            DraftResult { place: draft.close_time(*at), ..DraftResult::nothing(String::new()) }
        }
        Command::ChangeAlert(change, crossing) => {
            let place = draft.change_alert(change, *crossing);
            DraftResult { place, ..DraftResult::nothing(change.alert.id.clone()) }
        }
        Command::AddFile(file) => {
            let place = draft.add_file(file).await?;
            DraftResult { place, ..DraftResult::nothing(file.kind.clone()) }
        }
        // `carry_out` handles imports.
        Command::Import(_) => DraftResult::nothing(String::new()),
    })
}

/// Responds to all callers with this error of the store.
pub(super) fn fail_all(jobs: impl IntoIterator<Item = Job>, error: &StoreError) {
    for job in jobs {
        drop(job.response.send(Err(Error::unavailable(error))));
    }
}

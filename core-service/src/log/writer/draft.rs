//! The draft of a batch: entries computed from the state at the log's head, and the state that they lead to.

mod alerts;
mod archive;
mod deletion;
mod lookup;

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use super::known_rows::KnownRows;
use crate::{
    domain::{
        dataset::Dataset,
        entry::{
            DatasetTotals, Entry, Kind, NamedProfile, NamedToken, ProfileObserved, ProfileUpdated, ThesisChanged,
            ThesisCreated, ThesisEdited, TokenObserved, Totals,
        },
        id,
        row::{NewThesis, Profile, Thesis, Token},
    },
    shared::Shared,
    store::StoreResult,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryPlace {
    /// In this batch.
    New(usize),
    Logged(u64),
    /// There is no entry: the command changes nothing.
    Nowhere,
}

pub(super) struct Draft<'a> {
    shared: &'a Shared,
    name: &'a str,
    /// True for a project's dataset: its entries carry the totals of the dataset.
    counts_all: bool,
    known: &'a KnownRows,
    head: u64,
    floor: i64,
    now: i64,
    pub(super) entries: Vec<Entry>,
    /// By thesis: the index of the entry that creates it.
    created: HashMap<String, usize>,
    /// Rows by id; none where there is no row. Those of entries under way are borrowed.
    profiles: HashMap<String, Option<Cow<'a, Profile>>>,
    tokens: HashMap<String, Option<Cow<'a, Token>>>,
    theses: HashMap<String, Option<Cow<'a, Thesis>>>,
    totals: HashMap<String, (i64, i64)>,
    of_author: HashMap<(String, String), i64>,
    by_author: HashMap<String, i64>,
    in_dataset: Option<DatasetTotals>,
    /// By alert: the revision of its progress.
    revisions: HashMap<String, u64>,
    /// Hashes of archive files by date and kind, as entries under way or of this draft have them.
    files: HashMap<(String, String), String>,
}

impl<'a> Draft<'a> {
    /// A draft on the state at `head`, beginning with `entries`; no event is older than `floor`.
    pub(super) fn new(
        shared: &'a Shared,
        name: &'a str,
        known: &'a KnownRows,
        head: u64,
        floor: i64,
        entries: Vec<Entry>,
    ) -> Self {
        Self {
            shared,
            name,
            counts_all: matches!(Dataset::parse(name), Some(Dataset::Project(_))),
            known,
            head,
            floor: entries.iter().map(|entry| entry.created_at).fold(floor, i64::max),
            now: shared.clock.now_ms(),
            entries,
            created: HashMap::new(),
            profiles: HashMap::new(),
            tokens: HashMap::new(),
            theses: HashMap::new(),
            totals: HashMap::new(),
            of_author: HashMap::new(),
            by_author: HashMap::new(),
            in_dataset: None,
            revisions: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// Adds the state after entries under way, in order. No deletion is among them: the writer drafts nothing before
    /// its rows are written.
    pub(super) fn after(mut self, under_way: impl Iterator<Item = &'a Entry>) -> Self {
        for entry in under_way {
            match &entry.kind {
                Some(Kind::ThesisCreated(created)) => {
                    let ThesisCreated { thesis, profile, token, totals, .. } = created;
                    if created.introduces_profile {
                        self.profiles.insert(profile.id.clone(), Some(Cow::Borrowed(profile)));
                    }
                    if created.introduces_token {
                        self.tokens.insert(token.id.clone(), Some(Cow::Borrowed(token)));
                    }
                    self.theses.insert(thesis.id.clone(), Some(Cow::Borrowed(thesis)));
                    self.put_totals(thesis, totals);
                }
                Some(
                    Kind::ThesisEdited(ThesisEdited { thesis, .. })
                    | Kind::Engagement(ThesisChanged { thesis })
                    | Kind::ThesisAwaited(ThesisChanged { thesis }),
                ) => drop(self.theses.insert(thesis.id.clone(), Some(Cow::Borrowed(thesis)))),
                Some(
                    Kind::ProfileUpdated(ProfileUpdated { profile, .. })
                    | Kind::ProfileObserved(ProfileObserved { profile }),
                ) => drop(self.profiles.insert(profile.id.clone(), Some(Cow::Borrowed(profile)))),
                Some(Kind::TokenObserved(TokenObserved { token, .. })) => {
                    self.tokens.insert(token.id.clone(), Some(Cow::Borrowed(token)));
                }
                Some(Kind::ThesisDeleted(_)) => debug_assert!(false, "a deletion is under way"),
                Some(Kind::ArchiveFile(file)) => self.put_file(file),
                Some(Kind::AlertFiring(change) | Kind::AlertResolved(change) | Kind::AlertProgressed(change)) => {
                    self.revisions.insert(change.alert.id.clone(), change.progress.revision);
                }
                Some(Kind::TokenActivity(_) | Kind::ThesisVelocity(_)) | None => {}
            }
        }
        self
    }

    /// The entries of the batch.
    pub(super) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// Current time, the same for the whole batch.
    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// Finds the entry that creates a thesis: in this draft, or in the log if [`Self::lookup`] read the row.
    pub(super) fn place_of_creation(&self, thesis_id: &str) -> Option<EntryPlace> {
        let new = self.created.get(thesis_id).map(|index| EntryPlace::New(*index));
        new.or_else(|| self.theses.get(thesis_id)?.as_ref()?.sequence.map(EntryPlace::Logged))
    }

    /// The time of the next entry, which is `at` or now if no earlier entry is younger.
    fn time_of_next(&self, at: Option<i64>) -> i64 {
        at.unwrap_or(self.now).max(self.floor)
    }

    pub(super) fn add(&mut self, id: String, at: Option<i64>, test: bool, kind: Kind) -> EntryPlace {
        let created_at = self.time_of_next(at);
        self.floor = created_at;
        self.entries.push(Entry { id, created_at, test, kind: Some(kind), ..Entry::default() });
        EntryPlace::New(self.entries.len() - 1)
    }

    /// Adds an entry without content if the log has no entry younger than `at`.
    pub(super) fn close_time(&mut self, at: i64) -> EntryPlace {
        if self.floor > at {
            return EntryPlace::Nowhere;
        }
        self.floor = self.now.max(at + 1);
        self.entries.push(Entry::filler(self.next_sequence(), self.floor));
        EntryPlace::New(self.entries.len() - 1)
    }

    pub(super) async fn profile(&mut self, id: &str) -> StoreResult<Option<Profile>> {
        self.profile_in(self.name.to_owned(), id).await
    }

    async fn profile_in(&mut self, dataset: String, id: &str) -> StoreResult<Option<Profile>> {
        if let Some(profile) = self.profiles.get(id) {
            return Ok(profile.as_deref().cloned());
        }
        if let Some(profile) = self.known.profiles.get(id) {
            return Ok(Some(Profile::clone(&profile)));
        }
        let mut rows = self.shared.theses.profiles(&[(dataset, id)]).await?;
        let found = rows.pop().flatten().map(Arc::unwrap_or_clone);
        self.profiles.insert(id.to_owned(), found.clone().map(Cow::Owned));
        Ok(found)
    }

    pub(super) async fn token(&mut self, id: &str) -> StoreResult<Option<Token>> {
        self.token_in(self.name.to_owned(), id).await
    }

    async fn token_in(&mut self, dataset: String, id: &str) -> StoreResult<Option<Token>> {
        if let Some(token) = self.tokens.get(id) {
            return Ok(token.as_deref().cloned());
        }
        if let Some(token) = self.known.tokens.get(id) {
            return Ok(Some(Token::clone(&token)));
        }
        let mut rows = self.shared.theses.tokens(&[(dataset, id)]).await?;
        let found = rows.pop().flatten().map(Arc::unwrap_or_clone);
        self.tokens.insert(id.to_owned(), found.clone().map(Cow::Owned));
        Ok(found)
    }

    pub(super) async fn thesis(&mut self, id: &str) -> StoreResult<Option<Thesis>> {
        if let Some(thesis) = self.theses.get(id) {
            return Ok(thesis.as_deref().cloned());
        }
        let mut rows = self.shared.theses.theses(&[(self.name.to_owned(), id)]).await?;
        let found = rows.pop().flatten().map(Arc::unwrap_or_clone);
        self.theses.insert(id.to_owned(), found.clone().map(Cow::Owned));
        Ok(found)
    }

    async fn is_new_profile(&mut self, id: &str) -> StoreResult<bool> {
        Ok(!self.known.profiles.contains(id) && self.profile(id).await?.is_none())
    }

    async fn is_new_token(&mut self, id: &str) -> StoreResult<bool> {
        Ok(!self.known.tokens.contains(id) && self.token(id).await?.is_none())
    }

    pub(super) fn put_profile(&mut self, profile: &Profile) {
        self.profiles.insert(profile.id.clone(), Some(Cow::Owned(profile.clone())));
    }

    pub(super) fn put_token(&mut self, token: &Token) {
        self.tokens.insert(token.id.clone(), Some(Cow::Owned(token.clone())));
    }

    fn put_thesis(&mut self, thesis: &Thesis) {
        self.theses.insert(thesis.id.clone(), Some(Cow::Owned(thesis.clone())));
    }

    fn put_totals(&mut self, thesis: &Thesis, totals: &Totals) {
        let (token, author) = (&thesis.token_id, &thesis.profile_id);
        self.totals.insert(token.clone(), (totals.theses, totals.authors));
        self.of_author.insert((token.clone(), author.clone()), totals.of_author);
        self.by_author.insert(author.clone(), totals.by_author);
    }

    /// Reads a token's number of theses, and that of their authors.
    async fn counts_of(&self, token: &str) -> StoreResult<(i64, i64)> {
        match self.totals.get(token).copied().or_else(|| self.known.totals.get(token)) {
            Some(counts) => Ok(counts),
            None => {
                let totals = self.shared.theses.totals(self.name, &[token]).await?;
                Ok(totals.first().map(|of| (of.theses, of.authors)).unwrap_or_default())
            }
        }
    }

    /// Reads the number of an author's theses that the dataset ever had.
    async fn count_by_author(&self, author: &str) -> StoreResult<i64> {
        match self.by_author.get(author).copied().or_else(|| self.known.by_author.get(author)) {
            Some(count) => Ok(count),
            None => {
                let counts = self.shared.theses.counts_by_author(self.name, &[author]).await?;
                Ok(counts.first().copied().unwrap_or_default())
            }
        }
    }

    async fn dataset_totals(&self) -> StoreResult<DatasetTotals> {
        let known = self.in_dataset.or_else(|| *self.known.in_dataset.lock());
        match known {
            Some(totals) => Ok(totals),
            None => self.shared.theses.dataset_totals(self.name).await,
        }
    }

    /// Computes the totals of a thesis' token after the thesis is added (`by` 1), deleted (`by` -1), or observed only
    /// after its deletion (`by` 0).
    async fn totals(&mut self, thesis: &Thesis, by: i64) -> StoreResult<Totals> {
        let (token, author) = (&thesis.token_id, &thesis.profile_id);
        let (theses, authors) = self.counts_of(token).await?;
        let of = (token.clone(), author.clone());
        let before = match self.of_author.get(&of).copied().or_else(|| self.known.of_author.get(&of)) {
            Some(count) => count,
            None => {
                let counts = self.shared.theses.author_counts(self.name, &[(token.as_str(), author.as_str())]).await?;
                counts.first().copied().unwrap_or_default()
            }
        };
        let after = before + by;
        let authors = authors + i64::from(after > 0) - i64::from(before > 0);
        if self.counts_all {
            let all = self.dataset_totals().await?;
            self.in_dataset = Some(DatasetTotals { theses: all.theses + by, ..all });
        }
        let by_author = (self.count_by_author(author).await? + by.max(0)).min(Totals::MAX_BY_AUTHOR);
        let totals = Totals { theses: theses + by, authors, of_author: after, in_dataset: self.in_dataset, by_author };
        self.put_totals(thesis, &totals);
        Ok(totals)
    }

    /// The sequence number that the next entry of the draft gets.
    fn next_sequence(&self) -> u64 {
        self.head + 1 + self.entries.len() as u64
    }

    /// Adds a thesis that is not in the log yet.
    pub(super) async fn create(&mut self, id: String, new: &NewThesis) -> StoreResult<EntryPlace> {
        let introduces_profile = !new.thesis.sandbox_profile && self.is_new_profile(&new.profile.id).await?;
        let introduces_token = !new.thesis.sandbox_token && self.is_new_token(&new.token.id).await?;
        let mut totals = self.totals(&new.thesis, 1).await?;
        if let Some(all) = &mut totals.in_dataset {
            all.profiles += i64::from(introduces_profile);
            all.tokens += i64::from(introduces_token);
        }
        self.in_dataset = totals.in_dataset;
        let recorded_at = self.time_of_next(new.at);
        let thesis = Thesis { sequence: Some(self.next_sequence()), recorded_at, ..new.thesis.clone() };
        self.put_thesis(&thesis);
        self.created.insert(thesis.id.clone(), self.entries.len());
        if introduces_profile {
            self.put_profile(&new.profile);
        }
        if introduces_token {
            self.put_token(&new.token);
        }
        let created = ThesisCreated {
            thesis,
            profile: if introduces_profile { new.profile.clone() } else { new.profile.for_events() },
            token: if introduces_token { new.token.clone() } else { new.token.for_events() },
            introduces_profile,
            introduces_token,
            totals,
        };
        let place = self.add(id, new.at, new.test, Kind::ThesisCreated(created));
        if let EntryPlace::New(index) = place {
            self.entries[index].trace.clone_from(&new.trace);
        }
        Ok(place)
    }

    pub(super) async fn edit(&mut self, mut thesis: Thesis, version: i64) -> StoreResult<EntryPlace> {
        let (profile, token) = self.names(&thesis).await?;
        let previous = thesis.changed_in.replace(self.next_sequence());
        self.put_thesis(&thesis);
        let id = id::derive("ent_", &["edited", &thesis.id, &version.to_string()]);
        Ok(self.add(id, None, false, Kind::ThesisEdited(ThesisEdited { thesis, profile, token, previous })))
    }

    /// The dataset that holds a thesis' author or token.
    fn dataset(&self, is_of_sandbox: bool) -> String {
        if is_of_sandbox { Dataset::Sandbox.to_string() } else { self.name.to_owned() }
    }

    /// The present names of a thesis' author and token, which may be the sandbox's.
    async fn names(&mut self, thesis: &Thesis) -> StoreResult<(NamedProfile, NamedToken)> {
        let (of_profile, of_token) = (self.dataset(thesis.sandbox_profile), self.dataset(thesis.sandbox_token));
        let profile = self.profile_in(of_profile, &thesis.profile_id).await?;
        let token = self.token_in(of_token, &thesis.token_id).await?;
        let handle = profile.map(|profile| profile.handle).unwrap_or_default();
        let (address, symbol) = token.map(|token| (token.address, token.symbol)).unwrap_or_default();
        let token = NamedToken { id: thesis.token_id.clone(), chain: thesis.chain.clone(), address, symbol };
        Ok((NamedProfile { id: thesis.profile_id.clone(), handle }, token))
    }

    pub(super) fn change(
        &mut self,
        name: &str,
        thesis: Thesis,
        version: i64,
        kind: fn(ThesisChanged) -> Kind,
    ) -> EntryPlace {
        let id = id::derive("ent_", &[name, &thesis.id, &version.to_string()]);
        self.put_thesis(&thesis);
        self.add(id, None, false, kind(ThesisChanged { thesis }))
    }
}

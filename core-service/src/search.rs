//! The search index: theses, profiles and tokens of every dataset, a projection of the logs. It remembers its position
//! in each log. It can be deleted at any time, and is then rebuilt from the first entry.

pub mod ask;

mod best;

mod cancel;

mod compile;

mod filter;
pub mod follow;

mod id;

mod near;

mod progress;

mod schema;

mod syntax;

#[cfg(test)]
mod tests;

mod turns;

mod unused;

mod words;

mod writer;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tantivy::{
    Index, IndexReader, ReloadPolicy, TantivyError,
    indexer::IndexWriterOptions,
    query::{BooleanQuery, Query},
};
use tokio::sync::{Notify, watch};

use self::{
    best::{Best, Order, Rank, highest},
    cancel::Cancellable,
    compile::{Frequencies, MAX_EXPANSIONS, count_expansions, has, has_one},
    schema::{Fields, Kind, Terms, VERSION, WORDS},
    turns::Turns,
    words::WordTokenizer,
    writer::Writer,
};
use crate::domain::{
    dataset::{Dataset, View},
    entry::SequencedEntry,
};

pub use self::cancel::Cancellation;
pub use self::filter::{ListedThesis, SearchFilter};
pub use self::near::Near;
pub use self::syntax::{Looked, Malformed, parse};

/// Most bytes of documents gathered before they are written, between commits.
const GATHERED: usize = 20_000_000;

/// Why the index failed. Nothing is lost: it is rebuilt from the logs.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The index itself failed.
    #[error("the search index failed: {0}")]
    Index(#[from] TantivyError),
    /// Its folder cannot be used.
    #[error("the folder of the search index cannot be used: {0}")]
    Folder(#[from] std::io::Error),
    /// A note in it cannot be read or written.
    #[error("the search index holds an unreadable note: {0}")]
    Note(#[from] serde_json::Error),
    /// It was made by another version of this service, or never finished.
    #[error("the search index is of another version")]
    Version,
    /// A prefix of a search matches too many words.
    #[error("the prefix `{0}*` matches too many words")]
    TooBroad(String),
    /// The search was cancelled before its end.
    #[error("the search was cancelled")]
    Cancelled,
    /// Some of its files are not as they were written.
    #[error("files of the search index are damaged")]
    Damaged,
}

/// The last entry of a log that the index has taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its sequence number.
    pub seq: u64,
    /// Its id, which shows that the log is the same.
    pub id: String,
}

/// By the dataset's name.
type Marks = BTreeMap<String, Mark>;

/// Committed with the documents, so that both always agree.
#[derive(Serialize, Deserialize)]
struct Note {
    version: u32,
    marks: Marks,
}

/// The index.
pub struct SearchIndex {
    fields: Fields,
    reader: IndexReader,
    writer: Mutex<Writer>,
    committed: watch::Sender<Marks>,
    /// By name: datasets not taken in yet up to the position that their log had when they were first asked for, with that
    /// position once known.
    lacking: watch::Sender<HashMap<String, Option<u64>>>,
    /// By name: the datasets that were requested, with the time of the last request once the follower has noted it.
    requests: Mutex<HashMap<String, Option<i64>>>,
    wanted: Notify,
    turns: Turns,
    in_memory: bool,
}

impl SearchIndex {
    /// Opens the index in a folder of its own, or makes one in memory. A damaged index or another version is deleted.
    ///
    /// # Errors
    /// When the folder cannot be used, or another process uses it.
    pub fn open(dir: Option<&Path>) -> Result<Self, SearchError> {
        let (fields, schema) = Fields::new();
        let Some(dir) = dir else {
            let index = Self::over(fields, &Index::create_in_ram(schema), Marks::new())?;
            return Ok(Self { in_memory: true, ..index });
        };
        fs::create_dir_all(dir)?;
        if fs::read_dir(dir)?.next().is_some() {
            match Self::resume(fields, dir) {
                Ok(resumed) => return Ok(resumed),
                // Another process uses it.
                Err(error @ SearchError::Index(TantivyError::LockFailure(..))) => return Err(error),
                Err(error) => tracing::warn!(%error, "making the search index again"),
            }
            fs::remove_dir_all(dir)?;
            fs::create_dir_all(dir)?;
        }
        Self::over(fields, &Index::create_in_dir(dir, schema)?, Marks::new())
    }

    fn resume(fields: Fields, dir: &Path) -> Result<Self, SearchError> {
        let index = Index::open_in_dir(dir)?;
        let note: Note = serde_json::from_str(&index.load_metas()?.payload.ok_or(SearchError::Version)?)?;
        if note.version != VERSION || index.schema() != Fields::new().1 {
            return Err(SearchError::Version);
        }
        if !index.validate_checksum()?.is_empty() {
            return Err(SearchError::Damaged);
        }
        Self::over(fields, &index, note.marks)
    }

    fn over(fields: Fields, index: &Index, marks: Marks) -> Result<Self, SearchError> {
        index.tokenizers().register(WORDS, WordTokenizer);
        let options = IndexWriterOptions::builder().memory_budget_per_thread(GATHERED).num_merge_threads(1).build();
        let writer = Mutex::new(Writer { writer: index.writer_with_options(options)?, marks: marks.clone() });
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let (committed, lacking) = (watch::Sender::new(marks), watch::Sender::default());
        Ok(Self {
            fields,
            reader,
            writer,
            committed,
            lacking,
            requests: Mutex::default(),
            wanted: Notify::new(),
            turns: Turns::new(),
            in_memory: false,
        })
    }

    /// Takes in a dataset's entries in order; those up to its position are skipped. Searches see them after the next
    /// commit. Blocks.
    ///
    /// # Errors
    /// When the index fails; uncommitted entries must then be applied again.
    pub fn apply(&self, dataset: &Dataset, entries: &[SequencedEntry]) -> Result<(), SearchError> {
        let mut writer = self.writer.lock();
        let terms = Terms::new(self.fields, dataset);
        let name = dataset.to_string();
        let position = writer.marks.get(&name).map_or(0, |mark| mark.seq);
        for SequencedEntry { seq, entry } in entries.iter().filter(|entry| entry.seq > position) {
            let done = writer.take_in(&terms, entry);
            self.or_roll_back(&mut writer, done)?;
            writer.marks.insert(name.clone(), Mark { seq: *seq, id: entry.id.clone() });
        }
        Ok(())
    }

    /// Makes searches see the applied entries. Blocks for some tens of milliseconds.
    ///
    /// # Errors
    /// When the index fails; uncommitted entries must then be applied again.
    pub fn commit(&self) -> Result<(), SearchError> {
        let mut writer = self.writer.lock();
        let note = serde_json::to_string(&Note { version: VERSION, marks: writer.marks.clone() })?;
        let done = writer.writer.prepare_commit().and_then(|mut prepared| {
            prepared.set_payload(&note);
            prepared.commit()
        });
        self.or_roll_back(&mut writer, done)?;
        self.reader.reload()?;
        self.committed.send_replace(writer.marks.clone());
        self.complete();
        Ok(())
    }

    fn or_roll_back<T>(&self, writer: &mut Writer, done: tantivy::Result<T>) -> Result<T, SearchError> {
        if done.is_err() {
            writer.marks = self.committed.borrow().clone();
            writer.writer.rollback()?;
        }
        Ok(done?)
    }

    /// The ids of the theses that match a search, the best match or the newest first.
    ///
    /// # Errors
    /// When the index fails.
    pub fn theses(
        &self,
        view: &View,
        looked: &Looked,
        narrow: &SearchFilter,
        newest: bool,
        limit: usize,
    ) -> Result<Vec<(Dataset, String)>, SearchError> {
        let order = if newest { Order::Newest } else { Order::Relevance };
        let best = Best::new(order, None, limit);
        Ok(ids(Kind::Thesis, self.best(view, Kind::Thesis, Some(looked), narrow, best)?))
    }

    /// The ids of the profiles that match a search; those with exactly that handle first.
    ///
    /// # Errors
    /// When the index fails.
    pub fn profiles(
        &self,
        view: &View,
        looked: &Looked,
        narrow: &SearchFilter,
        limit: usize,
    ) -> Result<Vec<(Dataset, String)>, SearchError> {
        self.by_relevance(Kind::Profile, view, looked, narrow, limit)
    }

    /// The ids of the tokens that match a search; those with exactly that symbol or address first.
    ///
    /// # Errors
    /// When the index fails.
    pub fn tokens(
        &self,
        view: &View,
        looked: &Looked,
        narrow: &SearchFilter,
        limit: usize,
    ) -> Result<Vec<(Dataset, String)>, SearchError> {
        self.by_relevance(Kind::Token, view, looked, narrow, limit)
    }

    fn by_relevance(
        &self,
        kind: Kind,
        view: &View,
        looked: &Looked,
        narrow: &SearchFilter,
        limit: usize,
    ) -> Result<Vec<(Dataset, String)>, SearchError> {
        Ok(ids(kind, self.best(view, kind, Some(looked), narrow, Best::new(Order::Relevance, None, limit))?))
    }

    /// Theses in the order of likes (unknown ones last), then time, then id, all descending, after the given thesis.
    ///
    /// # Errors
    /// When the index fails.
    pub fn likes_page(
        &self,
        view: &View,
        narrow: &SearchFilter,
        after: Option<(Option<i64>, i64, &str)>,
        limit: usize,
    ) -> Result<Vec<ListedThesis>, SearchError> {
        let after = after.map(|(likes, created_at, id)| {
            let id = id.strip_prefix(Kind::Thesis.prefix()).and_then(id::halves).unwrap_or_default();
            Rank { first: likes, created_at, id }
        });
        let found = self.best(view, Kind::Thesis, None, narrow, Best::new(Order::Likes, after, limit))?;
        let liked = |(rank, dataset): (Rank, &Dataset)| ListedThesis {
            dataset: dataset.clone(),
            id: id::whole(Kind::Thesis.prefix(), rank.id),
            likes: rank.first,
            created_at: rank.created_at,
        };
        Ok(found.into_iter().map(liked).collect())
    }

    fn best<'a>(
        &self,
        view: &'a View,
        kind: Kind,
        looked: Option<&Looked>,
        narrow: &SearchFilter,
        mut best: Best,
    ) -> Result<Vec<(Rank, &'a Dataset)>, SearchError> {
        if best.limit == 0 {
            return Ok(Vec::new());
        }
        let searcher = self.reader.searcher();
        let datasets: Vec<Terms> = view.datasets().iter().map(|dataset| Terms::new(self.fields, dataset)).collect();
        let frequencies = Frequencies { searcher: &searcher, datasets: &datasets, kind };
        let (mut found, mut left) = (Vec::new(), MAX_EXPANSIONS);
        if let Some(looked) = looked {
            datasets.iter().try_for_each(|terms| count_expansions(&searcher, terms, kind, looked, &mut left))?;
        }
        for (terms, dataset) in datasets.iter().zip(view.datasets()) {
            let query = BooleanQuery::intersection(clauses(terms, kind, looked, narrow));
            if kind == Kind::Thesis {
                (best.from, best.to) = (narrow.floor.bound_for(dataset), narrow.to);
            }
            let ranks = searcher.search_with_statistics_provider(&query, &best, &frequencies)?;
            found.extend(ranks.into_iter().map(|rank| (rank, dataset)));
        }
        if narrow.cancellation.is_cancelled() {
            return Err(SearchError::Cancelled);
        }
        Ok(highest(found, best.limit))
    }
}

/// The conditions for a row of one dataset.
fn clauses(terms: &Terms, kind: Kind, looked: Option<&Looked>, narrow: &SearchFilter) -> Vec<Box<dyn Query>> {
    let fields = &terms.fields;
    let mut clauses = vec![match looked {
        Some(looked) => compile::query(terms, kind, looked, &narrow.cancellation),
        None => {
            Box::new(Cancellable::new(Arc::from(has(terms.term(fields.kind, kind.prefix()))), &narrow.cancellation))
        }
    }];
    let (profile, token) = match kind {
        Kind::Thesis => (fields.author, fields.about),
        Kind::Profile | Kind::Token => (fields.id, fields.id),
    };
    if let Some(id) = narrow.profile.as_ref().filter(|_| kind != Kind::Token) {
        clauses.push(has(terms.term(profile, id)));
    }
    if let Some(ids) = narrow.tokens.as_ref().filter(|_| kind != Kind::Profile) {
        clauses.push(has_one(ids.iter().map(|id| terms.term(token, id))));
    }
    if let Some(chain) = narrow.chain.as_ref().filter(|_| kind != Kind::Profile) {
        clauses.push(has(terms.term(fields.chain, chain)));
    }
    clauses
}

fn ids(kind: Kind, found: Vec<(Rank, &Dataset)>) -> Vec<(Dataset, String)> {
    found.into_iter().map(|(rank, dataset)| (dataset.clone(), id::whole(kind.prefix(), rank.id))).collect()
}

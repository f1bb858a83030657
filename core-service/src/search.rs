//! The search index: theses, profiles and tokens of every dataset, a projection of the logs. It remembers its position
//! in each log. It can be deleted at any time, and is then rebuilt from the first entry.
//!
//! It lives in the core's data folder and goes on from its positions after a restart. Without a folder it is in memory
//! and built at each start: `live` and `sandbox` at once, a project's log with its first search.
//!
//! Hits are read again from the store, so a deleted row never shows. A search may miss the last second; `likes_desc`
//! waits up to 250 ms until the index has the log's head, else it is 503. Searches are 503 until the index is complete.

mod best;

mod cancel;

mod compile;

mod filter;
mod folder;
pub mod follow;

mod id;

mod marks;
mod near;

mod opening;
mod progress;
pub mod run;

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
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tantivy::{
    IndexReader, TantivyError,
    directory::error::OpenReadError as ReadError,
    query::{BooleanQuery, Query},
};
use tokio::sync::{Notify, watch};

use self::{
    best::{Best, Rank, highest},
    cancel::Cancellable,
    compile::{Frequencies, MAX_EXPANSIONS, count_expansions, has, has_one},
    schema::{Fields, Terms},
    turns::Turns,
    writer::Writer,
};
use crate::domain::{
    dataset::{Dataset, View},
    entry::SequencedEntry,
};

pub use self::{
    best::Order,
    cancel::Cancellation,
    filter::{ListedThesis, SearchFilter},
    folder::SearchFolder,
    near::NearMatches,
    schema::Kind,
    syntax::{ParsedSearch, parse},
};

/// Failures of the index. No data is lost: the index is rebuilt from the logs.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("the search index failed: {0}")]
    Index(#[from] TantivyError),
    /// The folder of the index cannot be used.
    #[error("the folder of the search index cannot be used: {0}")]
    Folder(#[from] std::io::Error),
    /// The note of a commit cannot be read or written.
    #[error("the search index holds an unreadable note: {0}")]
    Note(#[from] serde_json::Error),
    /// Another version of this service wrote the index, or its creation was not finished.
    #[error("the search index is of another version")]
    Version,
    /// The index was built from the logs of another store, or of this one before a restore.
    #[error("the search index is of other logs")]
    Generation,
    /// The index has not been opened yet, or failed and is not complete again.
    #[error("the search index is closed")]
    Closed,
    /// A prefix of a search matches too many words.
    #[error("the prefix `{0}*` matches too many words")]
    TooBroad(String),
    #[error("the search was cancelled")]
    Cancelled,
    #[error("files of the search index are damaged")]
    Damaged,
}

impl SearchError {
    /// True if no retry can open the index. Other failures may end: too many open files, no memory, a disk that does
    /// not respond.
    fn must_be_rebuilt(&self) -> bool {
        use TantivyError::{DataCorruption, IncompatibleIndex, IoError, OpenReadError};
        let error = match self {
            Self::Version | Self::Generation | Self::Damaged | Self::Note(_) => return true,
            Self::Index(error) => error,
            _ => return false,
        };
        match error {
            DataCorruption(_)
            | IncompatibleIndex(_)
            | OpenReadError(ReadError::FileDoesNotExist(_) | ReadError::IncompatibleIndex(_)) => true,
            IoError(error) | OpenReadError(ReadError::IoError { io_error: error, .. }) => {
                matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::NotFound | ErrorKind::UnexpectedEof)
            }
            _ => false,
        }
    }
}

/// The last indexed entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMark {
    pub seq: u64,
    /// Its id, which shows that the log is the same.
    pub id: String,
}

/// Marks by the dataset's name.
type Marks = BTreeMap<String, LogMark>;

pub struct SearchIndex {
    fields: Fields,
    /// None for an index in memory.
    folder: Option<SearchFolder>,
    /// Writer and reader are none while the index is closed.
    writer: Mutex<Option<Writer>>,
    reader: Mutex<Option<IndexReader>>,
    failing: AtomicBool,
    /// True once the checksums of all files in the folder were verified, or this process has written the files.
    is_verified: AtomicBool,
    committed: watch::Sender<Marks>,
    /// Incomplete datasets by name. The index has not reached the position that their log had at the first request. The
    /// value is that start position, once it is known.
    incomplete: watch::Sender<HashMap<String, Option<u64>>>,
    /// Requested datasets by name, with the time of the last request once the follower has noted it.
    requests: Mutex<HashMap<String, Option<i64>>>,
    wanted: Notify,
    turns: Turns,
}

impl SearchIndex {
    /// Creates an index in memory, or one in a folder. That one is closed until it is reopened.
    pub fn open(folder: Option<SearchFolder>) -> Result<Self, SearchError> {
        let index = Self {
            fields: Fields::new().0,
            folder,
            writer: Mutex::default(),
            reader: Mutex::default(),
            failing: AtomicBool::new(false),
            is_verified: AtomicBool::new(false),
            committed: watch::Sender::default(),
            incomplete: watch::Sender::default(),
            requests: Mutex::default(),
            wanted: Notify::new(),
            turns: Turns::new(),
        };
        if index.folder.is_none() {
            // An index in memory is never read for another generation.
            index.reopen("")?;
        }
        Ok(index)
    }

    /// Indexes a dataset's entries in order, and skips entries up to its position. Searches see them after the next
    /// commit. This blocks. An error closes the index, and uncommitted entries must be applied again.
    pub fn apply(&self, dataset: &Dataset, entries: &[SequencedEntry]) -> Result<(), SearchError> {
        self.write(|writer| {
            let terms = Terms::new(self.fields, dataset);
            let name = dataset.to_string();
            let position = writer.marks.get(&name).map_or(0, |mark| mark.seq);
            for SequencedEntry { entry, .. } in entries.iter().filter(|entry| entry.seq > position) {
                writer.apply_entry(&terms, entry)?;
            }
            if let Some(SequencedEntry { seq, entry }) = entries.last().filter(|last| last.seq > position) {
                writer.set_mark(&name, Some(LogMark { seq: *seq, id: entry.id.clone() }));
            }
            Ok(())
        })
    }

    /// Makes searches see the applied entries. This blocks for some tens of milliseconds. An error closes the index,
    /// and uncommitted entries must be applied again.
    pub fn commit(&self) -> Result<(), SearchError> {
        self.write(|writer| {
            let changed = writer.commit(&self.fields)?;
            let reader = self.reader.lock().clone();
            if let Some(reader) = reader {
                reader.reload()?;
            }
            self.committed.send_modify(|marks| {
                for (name, mark) in changed {
                    match mark {
                        Some(mark) => drop(marks.insert(name, mark)),
                        None => drop(marks.remove(&name)),
                    }
                }
            });
            if self.failing.swap(false, Relaxed) {
                tracing::info!("the search index works again");
            }
            self.complete();
            Ok(())
        })
    }

    /// Finds the ids of the rows of a kind that match a search. By relevance, profiles with exactly that handle and
    /// tokens with exactly that symbol or address come first.
    pub fn find(
        &self,
        kind: Kind,
        view: &View,
        parsed: &ParsedSearch,
        narrow: &SearchFilter,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(Dataset, String)>, SearchError> {
        Ok(ids(kind, self.best(view, kind, Some(parsed), narrow, Best::new(order, None, limit))?))
    }

    /// Lists theses in the order of likes (unknown likes last), then time, then id, all descending, after the given
    /// thesis.
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
            id: id::join(Kind::Thesis.prefix(), rank.id),
            likes: rank.first,
            created_at: rank.created_at,
        };
        Ok(found.into_iter().map(liked).collect())
    }

    fn best<'a>(
        &self,
        view: &'a View,
        kind: Kind,
        parsed: Option<&ParsedSearch>,
        narrow: &SearchFilter,
        mut best: Best,
    ) -> Result<Vec<(Rank, &'a Dataset)>, SearchError> {
        if best.limit == 0 {
            return Ok(Vec::new());
        }
        let searcher = self.searcher(view)?;
        let datasets: Vec<Terms> = view.datasets().iter().map(|dataset| Terms::new(self.fields, dataset)).collect();
        let frequencies = Frequencies { searcher: &searcher, datasets: &datasets, kind };
        let (mut found, mut left) = (Vec::new(), MAX_EXPANSIONS);
        if let Some(parsed) = parsed {
            datasets.iter().try_for_each(|terms| count_expansions(&searcher, terms, kind, parsed, &mut left))?;
        }
        for (terms, dataset) in datasets.iter().zip(view.datasets()) {
            let query = BooleanQuery::intersection(clauses(terms, kind, parsed, narrow));
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
fn clauses(terms: &Terms, kind: Kind, parsed: Option<&ParsedSearch>, narrow: &SearchFilter) -> Vec<Box<dyn Query>> {
    let fields = &terms.fields;
    let mut clauses = vec![match parsed {
        Some(parsed) => compile::query(terms, kind, parsed, &narrow.cancellation),
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
    found.into_iter().map(|(rank, dataset)| (dataset.clone(), id::join(kind.prefix(), rank.id))).collect()
}

//! The search index: theses, profiles and tokens of every dataset, a projection of the logs. It remembers its position
//! in each log. It can be deleted at any time, and is then rebuilt from the first entry. It has shards (`shard.rs`), of
//! which a search reads those of its window.
//!
//! It lives in the core's data folder and goes on from its positions after a restart. A core with an empty folder copies
//! it from another core (`copies.rs`). Without a folder it is in memory and built at each start: `live` and `sandbox` at
//! once, a project's log with its first search.
//!
//! Hits are read again from the store, so a deleted row never shows. A search may miss the last second; `likes_desc`
//! waits up to 250 ms until the index has the log's head, else it is 503. A search gets 503 while the index is not
//! complete, or while no core has a month of its window.

mod best;

mod cancel;

mod compile;
mod copies;

mod documents;

mod filter;
mod folder;
pub mod follow;

mod id;

mod marks;
pub mod months;
mod near;

mod open_shard;
mod opening;
mod placement;
mod progress;
mod ranks;
mod rebuild;
pub mod run;

mod schema;

mod segments;

mod shard;

mod statistics;

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
use tantivy::{IndexReader, TantivyError, directory::error::OpenReadError as ReadError};
use tokio::sync::{Notify, Semaphore, watch};

use self::{
    best::{Best, Rank},
    placement::KnownCores,
    schema::{Fields, Terms},
    shard::Shard,
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
    copies::send_shard,
    filter::{ListedThesis, SearchFilter},
    folder::SearchFolder,
    near::NearMatches,
    schema::Kind,
};
pub use thesis_proto::search::{ParsedSearch, parse};

/// Maximum number of copies of shards that a core sends at the same time. Others wait, since more would take no less
/// time each.
const MAX_SENT_COPIES: usize = 2;

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
    /// A request has read as many documents as it may.
    #[error("the search matches too many documents")]
    Exhausted,
    #[error("files of the search index are damaged")]
    Damaged,
    /// Another core must send a shard: this one does not have it, or builds it.
    #[error("this core does not have the whole shard of the search index")]
    NotWhole,
    /// A core sends as many copies of shards as it may.
    #[error("too many copies of the search index are under way")]
    Busy,
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

/// Readers by shard. A month without a reader is closed or being rebuilt.
type Readers = BTreeMap<Shard, Option<IndexReader>>;

pub struct SearchIndex {
    fields: Fields,
    /// None for an index in memory.
    folder: Option<Arc<SearchFolder>>,
    /// Writer and readers are none while the index is closed.
    writer: Mutex<Option<Writer>>,
    readers: Mutex<Option<Readers>>,
    failing: AtomicBool,
    committed: watch::Sender<Marks>,
    /// Incomplete datasets by name. The index has not reached the position that their log had at the first request. The
    /// value is that start position, once it is known.
    incomplete: watch::Sender<HashMap<String, Option<u64>>>,
    /// Requested datasets by name, with the time of the last request once the follower has noted it.
    requests: Mutex<HashMap<String, Option<i64>>>,
    wanted: Notify,
    /// Notified while a month waits for a copy.
    missing: Notify,
    /// Permits to send copies of shards.
    sent_copies: Arc<Semaphore>,
    /// The cores that share the months.
    known_cores: Mutex<KnownCores>,
    turns: Turns,
}

impl SearchIndex {
    /// Creates an index in memory, or one in a folder. That one is closed until it is reopened.
    pub fn open(folder: Option<SearchFolder>) -> Result<Self, SearchError> {
        let index = Self {
            fields: Fields::new().0,
            folder: folder.map(Arc::new),
            writer: Mutex::default(),
            readers: Mutex::default(),
            failing: AtomicBool::new(false),
            committed: watch::Sender::default(),
            incomplete: watch::Sender::default(),
            requests: Mutex::default(),
            wanted: Notify::new(),
            missing: Notify::new(),
            sent_copies: Arc::new(Semaphore::new(MAX_SENT_COPIES)),
            known_cores: Mutex::default(),
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
        let terms = Terms::new(self.fields, dataset);
        self.write(|writer| writer.apply(&terms, dataset, entries))
    }

    /// Makes searches see the applied entries. This blocks for some tens of milliseconds. An error closes the index,
    /// and uncommitted entries must be applied again.
    pub fn commit(&self) -> Result<(), SearchError> {
        self.write(|writer| self.commit_changes(writer))
    }

    fn commit_changes(&self, writer: &mut Writer) -> Result<(), SearchError> {
        let changed = writer.commit(&self.fields)?;
        *self.readers.lock() = Some(writer.readers());
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
}

fn ids(kind: Kind, found: Vec<(Rank, Dataset)>) -> Vec<(Dataset, String)> {
    found.into_iter().map(|(rank, dataset)| (dataset, id::join(kind.prefix(), rank.id))).collect()
}

/// The rank of a thesis in a list by likes: its likes, its time and its id.
fn rank_of_likes((likes, created_at, id): (Option<i64>, i64, &str)) -> Rank {
    let id = id.strip_prefix(Kind::Thesis.prefix()).and_then(id::halves).unwrap_or_default();
    Rank { first: likes, created_at, id }
}

fn listed((rank, dataset): (Rank, Dataset)) -> ListedThesis {
    let id = id::join(Kind::Thesis.prefix(), rank.id);
    ListedThesis { dataset, id, likes: rank.first, created_at: rank.created_at }
}

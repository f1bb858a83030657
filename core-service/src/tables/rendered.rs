//! The JSON of rows that lists show, for an edge in this process, which writes it into its responses as it is.
//!
//! The JSON of a thesis is made of three rows: the thesis, its author and its token. It is right while all three are
//! the objects in memory that it was made of, since a changed row is another object. So it is exactly as new as these
//! rows, also on a cluster. It has the dataset's `livemode` too, and the object of a thesis belongs to one dataset: no
//! cache of rows may give it to another one. Where this process is the only writer, that JSON is also right as long as
//! nothing was written since a request read its rows (`row_cache.rs`). Then the rows need not be read again.
//!
//! Only an erasure changes an entry of a log: the JSON of an event is right while the newest erasure of the log is the
//! one that was known when the entry was read, or is before the entry.
//!
//! The JSON is the same for all callers who see the dataset.

use std::{
    ptr,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use quick_cache::{Equivalent, Weighter, sync::Cache};
use thesis_proto::json::{self, RenderedRow, render};

use super::log::{decode, outline};
use crate::{
    convert,
    domain::{
        dataset::Dataset,
        row::{Profile, Thesis, Token},
    },
    store::StoreResult,
};

/// Maximum size in bytes of the JSON of each kind.
const MAX_THESES_BYTES: u64 = 16 << 20;
const MAX_EVENTS_BYTES: u64 = 8 << 20;
/// Typical size in bytes of a cached JSON.
const TYPICAL_BYTES: u64 = 1_024;
/// Approximate size in bytes of a cache entry without its JSON: its key, its place in the cache, and allocations.
const ENTRY_BYTES: usize = 184;
/// A number of write steps that no store reaches.
const NO_STEPS: u64 = u64::MAX;
/// Size in bytes of a thesis's three rows without their texts. The weak references keep this memory.
const ROWS_BYTES: usize = size_of::<Thesis>() + size_of::<Profile>() + size_of::<Token>();

/// The JSON of a thesis, and the rows that it was made of. While these references exist, no other row gets their
/// addresses.
struct RenderedThesis {
    dataset: Dataset,
    /// The number of write steps at which a request last read these rows, or [`NO_STEPS`].
    steps: AtomicU64,
    thesis: Weak<Thesis>,
    author: Weak<Profile>,
    token: Weak<Token>,
    json: RenderedRow,
}

impl RenderedThesis {
    fn is_of(&self, thesis: &Arc<Thesis>, author: &Arc<Profile>, token: &Arc<Token>) -> bool {
        ptr::eq(self.thesis.as_ptr(), Arc::as_ptr(thesis))
            && ptr::eq(self.author.as_ptr(), Arc::as_ptr(author))
            && ptr::eq(self.token.as_ptr(), Arc::as_ptr(token))
    }

    /// True if these are still the rows of the thesis at this number of write steps.
    fn is_right_at(&self, steps: u64, dataset: &Dataset) -> bool {
        self.steps.load(Ordering::Relaxed) == steps && self.dataset == *dataset
    }
}

/// The JSON of an entry's event.
#[derive(Clone)]
pub struct RenderedEvent {
    /// The entry's `created_at`.
    pub created_at: i64,
    /// None for an entry that is no event.
    pub json: Option<RenderedRow>,
}

/// The key of an event in the cache. It borrows the dataset: threads that list the same events contend for the count of
/// its references.
#[derive(Hash)]
struct EventPlace<'d>(&'d Dataset, u64);

impl Equivalent<(Dataset, u64)> for EventPlace<'_> {
    fn equivalent(&self, (dataset, seq): &(Dataset, u64)) -> bool {
        self.0 == dataset && self.1 == *seq
    }
}

#[derive(Clone)]
struct BySize;

impl Weighter<String, Arc<RenderedThesis>> for BySize {
    fn weight(&self, id: &String, rendered: &Arc<RenderedThesis>) -> u64 {
        (ENTRY_BYTES + ROWS_BYTES + id.len() + rendered.json.get().len()) as u64
    }
}

impl Weighter<(Dataset, u64), KnownEvent> for BySize {
    fn weight(&self, _place: &(Dataset, u64), known: &KnownEvent) -> u64 {
        (ENTRY_BYTES + known.event.json.as_ref().map_or(0, |json| json.get().len())) as u64
    }
}

/// The JSON of an event in the cache.
#[derive(Clone)]
struct KnownEvent {
    event: RenderedEvent,
    /// The newest erasure of the log that was known before the entry was read.
    erasure: u64,
}

/// The JSON of theses and events that lists have shown lately.
pub struct RenderedLists {
    theses: Cache<String, Arc<RenderedThesis>, BySize>,
    /// By dataset and sequence number.
    events: Cache<(Dataset, u64), KnownEvent, BySize>,
}

impl Default for RenderedLists {
    fn default() -> Self {
        let expected = |max_bytes: u64| usize::try_from(max_bytes / TYPICAL_BYTES).unwrap_or_default();
        Self {
            theses: Cache::with_weighter(expected(MAX_THESES_BYTES), MAX_THESES_BYTES, BySize),
            events: Cache::with_weighter(expected(MAX_EVENTS_BYTES), MAX_EVENTS_BYTES, BySize),
        }
    }
}

impl RenderedLists {
    /// The JSON of theses by dataset and id, if a request has read the rows of all of them at this number of write
    /// steps.
    pub fn known_theses(&self, theses: &[(Dataset, String)], steps: u64) -> Option<Vec<RenderedRow>> {
        let mut rows = Vec::with_capacity(theses.len());
        for (dataset, id) in theses {
            let known = self.theses.get(id.as_str()).filter(|known| known.is_right_at(steps, dataset))?;
            rows.push(Arc::clone(&known.json));
        }
        Some(rows)
    }

    /// The JSON of a thesis with its author and token. If the request got a number of write steps before it read these
    /// rows, the JSON is known at that number.
    pub fn thesis(
        &self,
        dataset: &Dataset,
        thesis: &Arc<Thesis>,
        author: &Arc<Profile>,
        token: &Arc<Token>,
        steps: Option<u64>,
    ) -> RenderedRow {
        if let Some(known) = self.theses.get(thesis.id.as_str())
            && known.is_of(thesis, author, token)
        {
            if let Some(steps) = steps {
                known.steps.store(steps, Ordering::Relaxed);
            }
            return Arc::clone(&known.json);
        }
        let json = render(&json::Thesis::from(&convert::row::thesis(dataset, thesis, author, token)));
        let rendered = RenderedThesis {
            dataset: dataset.clone(),
            steps: AtomicU64::new(steps.unwrap_or(NO_STEPS)),
            thesis: Arc::downgrade(thesis),
            author: Arc::downgrade(author),
            token: Arc::downgrade(token),
            json: Arc::clone(&json),
        };
        self.theses.insert(thesis.id.clone(), Arc::new(rendered));
        json
    }

    /// Forgets everything: a text was erased.
    pub fn clear(&self) {
        self.theses.clear();
        self.events.clear();
    }

    /// The known event of an entry. `erasure` is the newest erasure of the log.
    fn known_event(&self, dataset: &Dataset, seq: u64, erasure: u64) -> Option<RenderedEvent> {
        let known = self.events.get(&EventPlace(dataset, seq))?;
        if seq < erasure && known.erasure < erasure {
            // Drop all JSON that may contain the text, even if nobody will request it: the events before the erasure,
            // and all theses.
            let has_text = |(of, seq): &(Dataset, u64), known: &KnownEvent| {
                of == dataset && *seq < erasure && known.erasure < erasure
            };
            self.events.retain(|place, known| !has_text(place, known));
            self.theses.clear();
            return None;
        }
        Some(known.event)
    }

    /// The known events of this number of entries before a sequence number, newest first. They begin with the oldest
    /// entry and have no gap, so the newer entries, whose events are not known, can be read as one slice. `erasure` is
    /// the newest erasure of the log.
    pub fn known_events(
        &self,
        dataset: &Dataset,
        before: u64,
        entries: usize,
        erasure: u64,
    ) -> Vec<(u64, RenderedEvent)> {
        let oldest_first = before.saturating_sub(entries as u64).max(1)..before;
        let known = oldest_first.map_while(|seq| Some((seq, self.known_event(dataset, seq, erasure)?)));
        let mut known: Vec<_> = known.collect();
        known.reverse();
        known
    }

    /// The event of an entry that the projection of its log has reached. `erasure` is the newest erasure of the log
    /// that was known before the entry was read.
    pub fn event(&self, dataset: &Dataset, seq: u64, body: &Bytes, erasure: u64) -> StoreResult<RenderedEvent> {
        if let Some(known) = self.known_event(dataset, seq, erasure) {
            return Ok(known);
        }
        let outline = outline(body)?;
        let event = if convert::entry::may_be_event(&outline, &[]) {
            convert::entry::event(dataset, &decode(seq, body.clone())?)
        } else {
            None
        };
        let json = event.map(|event| render(&json::Event::from(&event)));
        let rendered = RenderedEvent { created_at: outline.created_at, json };
        self.events.insert((dataset.clone(), seq), KnownEvent { event: rendered.clone(), erasure });
        Ok(rendered)
    }
}

#[cfg(test)]
mod tests;

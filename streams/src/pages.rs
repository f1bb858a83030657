//! Pages of past events, read once for all connections that are at the same past position.

use std::{num::NonZero, sync::Arc, thread::available_parallelism};

use futures::{FutureExt as _, future::BoxFuture};
use prost::Message as _;
use quick_cache::{Weighter, sync::Cache};
use thesis_net::services::{Streams, Trusted};
use thesis_proto::v1::{self, EventType};
use tokio::sync::Semaphore;
use tonic::Status;

use crate::{
    feed::Feed,
    ring::{Page, Render},
};

/// Maximum rendered bytes of cached pages.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Expected number of cached pages.
const PAGES: usize = 512;
/// Bytes that a page takes in addition to its events.
const PAGE: u64 = 256;

/// The events that a connection reads: the events of its filter where core has an index for it, or all events, so that
/// connections with other filters share the pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    types: Vec<i32>,
    /// Encoded, since messages have no hash.
    filters: Option<Vec<u8>>,
}

impl Wanted {
    pub(crate) fn new(types: &[i32], filters: Option<&v1::EventFilters>) -> Self {
        let narrow = filters.is_some_and(|filters| {
            !filters.token.is_empty() || !filters.handle.is_empty() || !filters.chain.is_empty()
        });
        let rare = !types.is_empty() && types.iter().all(|kind| *kind == i32::from(EventType::ProfileUpdated));
        if !narrow && !rare {
            return Self::default();
        }
        Self { types: types.to_vec(), filters: filters.map(v1::EventFilters::encode_to_vec) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PageKey {
    dataset: String,
    after: u64,
    wanted: Arc<Wanted>,
    /// The position up to which a text may have been erased when the reading began. A page that was read before an
    /// erasure is never used after it.
    erased: u64,
}

#[derive(Clone)]
struct Weight;

impl Weighter<PageKey, Arc<Page>> for Weight {
    fn weight(&self, _: &PageKey, page: &Arc<Page>) -> u64 {
        PAGE + page.entries.iter().map(|entry| entry.size() as u64).sum::<u64>()
    }
}

/// A page that is being read.
pub(crate) type Fetching = BoxFuture<'static, Result<Arc<Page>, Status>>;

/// Reads pages of the logs.
pub(crate) struct Pages {
    core: Arc<Streams>,
    render: Render,
    cache: Cache<PageKey, Arc<Page>, Weight>,
    /// Limits the pages that replays read at the same time, so that half of the processors remain for live streams.
    replays: Semaphore,
}

impl Pages {
    pub(crate) fn new(core: Arc<Streams>, render: Render) -> Arc<Self> {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let cache = Cache::with_weighter(PAGES, MAX_BYTES, Weight);
        Arc::new(Self { core, render, cache, replays: Semaphore::new((processors / 2).max(1)) })
    }

    /// Reads the wanted events of a feed's dataset after a position. `is_replay` is true if they are for a replay.
    pub(crate) fn fetch(self: &Arc<Self>, feed: &Feed, after: u64, wanted: &Arc<Wanted>, is_replay: bool) -> Fetching {
        let pages = Arc::clone(self);
        let (dataset, erased) = (feed.dataset.clone(), feed.erased());
        let key = PageKey { dataset, after, wanted: Arc::clone(wanted), erased };
        // A separate task reads the page: other waiting connections must not depend on one that is not polled.
        let reading = tokio::spawn(async move {
            // Take the permit before the read begins, because live streams share reads that have begun.
            let _permit = if is_replay { pages.replays.acquire().await.ok() } else { None };
            pages.cache.get_or_insert_async(&key, pages.read(&key)).await
        });
        async move { reading.await.map_err(|error| Status::internal(error.to_string()))? }.boxed()
    }

    /// Forgets all pages of a dataset.
    pub(crate) fn forget(&self, dataset: &str) {
        self.cache.retain(|key, _| key.dataset != dataset);
    }

    async fn read(&self, key: &PageKey) -> Result<Arc<Page>, Status> {
        let PageKey { dataset, after, wanted, .. } = key.clone();
        let filters = wanted.filters.as_deref().map(v1::EventFilters::decode).transpose();
        let filters = filters.map_err(|error| Status::internal(error.to_string()))?;
        let request = Trusted::request(v1::ReadRequest { dataset, after, types: wanted.types.clone(), filters });
        let v1::ReadResponse { events, position } = self.core.read(request).await?.into_inner();
        if position <= after {
            // The called core lags behind another core; such a page must not be cached.
            return Err(Status::unavailable("the log's reading stands still"));
        }
        Ok(Arc::new(Page::new(after, events, position, self.render)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_filters_with_an_index_have_pages_of_their_own() {
        let (rare, common) = (i32::from(EventType::ProfileUpdated), i32::from(EventType::ThesisCreated));
        let one = || vec!["x".to_owned()];
        for filters in [
            v1::EventFilters { token: one(), ..v1::EventFilters::default() },
            v1::EventFilters { handle: one(), ..v1::EventFilters::default() },
            v1::EventFilters { chain: one(), ..v1::EventFilters::default() },
        ] {
            let expected = Wanted { types: vec![common], filters: Some(filters.encode_to_vec()) };
            assert_eq!(Wanted::new(&[common], Some(&filters)), expected);
        }
        assert_eq!(Wanted::new(&[rare], None), Wanted { types: vec![rare], filters: None });
        let empty = v1::EventFilters::default();
        let shared: [(&[i32], Option<&v1::EventFilters>); 4] =
            [(&[], None), (&[common], None), (&[], Some(&empty)), (&[rare, common], Some(&empty))];
        for (types, filters) in shared {
            assert_eq!(Wanted::new(types, filters), Wanted::default(), "{types:?}");
        }
    }

    #[test]
    fn a_page_weighs_what_its_events_take() {
        let key = PageKey { dataset: "live".to_owned(), after: 0, wanted: Arc::default(), erased: 0 };
        let events = (1..=3).map(|position| v1::TailEvent { position, event: Some(v1::Event::default()) });
        let page = Arc::new(Page::new(0, events.collect(), 3, |_| vec![0; 10]));
        let bytes: u64 = page.entries.iter().map(|entry| entry.size() as u64).sum();
        assert!(bytes >= 30);
        assert_eq!(Weight.weight(&key, &page), 256 + bytes);
    }
}

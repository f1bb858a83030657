//! Searches of theses over the months of several cores.
//!
//! A month that this core cannot search now is searched by another core that has it, with the same request. Results have
//! ranks without equals, so the highest of all cores are those of an index with all months. Scores follow from counts of
//! all months: each core counts its own first, and the sum goes to all of them.
//!
//! A core that fails is not requested again for the same search: the next one that has its months is. A month that no
//! core can search makes the search fail, since a part would look like a whole. If all months are here, nothing is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::join_all;
use parking_lot::Mutex;
use tantivy::Searcher;
use thesis_proto::v1;
use tokio::time::timeout;

use super::{
    Cancellation, Kind, ListedThesis, Order, ParsedSearch, SearchError, SearchFilter, SearchIndex,
    best::{Best, Rank, highest},
    compile::prefixes,
    ids, listed, parse, rank_of_likes,
    run::{SEARCH_TIMEOUT, run_in_turn, too_slow, wait_until_complete, with_timeout},
    schema::VERSION,
    shard::Shard,
    statistics::Statistics,
};
use crate::{
    domain::{
        dataset::{Dataset, View},
        window::Floor,
    },
    error::{Error, Result},
    log::datasets::Datasets,
    replicas::peers::Peers,
};

/// A result of the index.
type IndexResult<T> = std::result::Result<T, SearchError>;

/// This core's index and the cores that have other months, for the searches of an organization.
#[derive(Clone, Copy)]
pub struct SearchCores<'a> {
    pub index: &'a Arc<SearchIndex>,
    pub peers: &'a Peers,
    pub organization: &'a str,
}

/// A search of theses.
pub struct ThesisSearch {
    view: View,
    /// The text of the search and its parsed form; none for a list by likes.
    words: Option<(String, ParsedSearch)>,
    narrow: SearchFilter,
    order: Order,
    after: Option<Rank>,
    limit: usize,
    /// The position in the log of `live` that each index must have reached.
    position: u64,
}

impl ThesisSearch {
    /// A search for a text and its parsed form. Each index must have reached a position in the log of `live`.
    pub fn new(
        view: View,
        words: (String, ParsedSearch),
        narrow: SearchFilter,
        order: Order,
        limit: usize,
        position: u64,
    ) -> Self {
        Self { view, words: Some(words), narrow, order, after: None, limit, position }
    }

    fn parsed(&self) -> Option<&ParsedSearch> {
        self.words.as_ref().map(|(_, parsed)| parsed)
    }

    pub(super) fn needs_statistics(&self) -> bool {
        let has_prefixes = self.parsed().is_some_and(|parsed| prefixes(parsed).next().is_some());
        self.order == Order::Relevance || has_prefixes
    }

    pub(super) fn ranks(
        &self,
        index: &SearchIndex,
        searchers: Vec<Vec<Searcher>>,
        lowest: Option<Rank>,
        statistics: Option<&Statistics>,
    ) -> IndexResult<Vec<(Rank, Dataset)>> {
        let best = Best { lowest, ..Best::new(self.order, self.after, self.limit) };
        index.best_among((&self.view, searchers), Kind::Thesis, self.parsed(), &self.narrow, best, statistics)
    }

    /// The lowest of the wanted ranks, if these are enough.
    pub(super) fn lowest_of(&self, found: &[(Rank, Dataset)]) -> Option<Rank> {
        self.limit.checked_sub(1).and_then(|last| found.get(last)).map(|(rank, _)| *rank)
    }

    /// False if every thesis of a month is below the lowest rank that is wanted.
    pub(super) fn may_find(&self, month: i64, lowest: Option<Rank>) -> bool {
        let is_older = |lowest: Rank| Shard::end_of_month(month) <= lowest.created_at;
        self.order != Order::Newest || !lowest.is_some_and(is_older)
    }

    /// Adds the theses of other cores to those of this core, highest first.
    pub(super) fn merge(
        &self,
        mut found: Vec<(Rank, Dataset)>,
        responses: &[v1::SearchMonthsResponse],
    ) -> IndexResult<Vec<(Rank, Dataset)>> {
        for response in responses {
            self.narrow.cancellation.count_documents(response.documents);
            found.extend(response.ranks.iter().map(|rank| (rank_of(rank), Dataset::Live)));
        }
        if self.narrow.cancellation.is_exhausted() {
            return Err(SearchError::Exhausted);
        }
        Ok(highest(found, self.limit))
    }

    /// The request to another core, which has no months yet, for a number of theses.
    pub(super) fn request(&self, limit: usize) -> v1::SearchMonthsRequest {
        let sort = match self.order {
            Order::Newest => v1::SearchSort::CreatedAtDesc,
            Order::Relevance | Order::Likes => v1::SearchSort::Relevance,
        };
        let SearchFilter { profile, tokens, chain, floor, to, cancellation } = &self.narrow;
        v1::SearchMonthsRequest {
            version: VERSION,
            position: self.position,
            q: self.words.as_ref().map(|(text, _)| text.clone()),
            sort: sort.into(),
            profile: profile.clone(),
            tokens: tokens.clone().map(|ids| v1::TokenIds { ids }),
            chain: chain.clone(),
            from: floor.bound_for(&Dataset::Live),
            to: *to,
            after: self.after.map(message_of),
            // A limit is at most some hundred.
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            documents: cancellation.documents(),
            ..v1::SearchMonthsRequest::default()
        }
    }

    pub(super) fn from_request(request: &v1::SearchMonthsRequest) -> IndexResult<Self> {
        let words = match &request.q {
            // The other core has parsed the same text.
            Some(text) => Some((text.clone(), parse(text).map_err(|_| SearchError::Version)?)),
            None => None,
        };
        let order = match (&words, request.sort()) {
            (None, _) => Order::Likes,
            (Some(_), v1::SearchSort::CreatedAtDesc) => Order::Newest,
            (Some(_), _) => Order::Relevance,
        };
        let cancellation = Cancellation::default();
        cancellation.count_documents(request.documents);
        let narrow = SearchFilter {
            profile: request.profile.clone(),
            tokens: request.tokens.clone().map(|tokens| tokens.ids),
            chain: request.chain.clone(),
            floor: Floor::at(request.from),
            to: request.to,
            cancellation,
        };
        let (after, position) = (request.after.as_ref().map(rank_of), request.position);
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        Ok(Self { view: View::live(), words, narrow, order, after, limit, position })
    }
}

pub(super) fn message_of(rank: Rank) -> v1::ThesisRank {
    let Rank { first, created_at, id: (id_high, id_low) } = rank;
    v1::ThesisRank { first, created_at, id_high, id_low }
}

fn rank_of(message: &v1::ThesisRank) -> Rank {
    Rank { first: message.first, created_at: message.created_at, id: (message.id_high, message.id_low) }
}

/// Finds the ids of theses. `beside` searches this core's index in the same turn.
///
/// # Errors
/// Those of [`run_in_turn`], and `SERVICE_UNAVAILABLE` if no core can search one of the months.
pub async fn find_theses<T: Send + 'static>(
    cores: SearchCores<'_>,
    search: ThesisSearch,
    beside: impl FnOnce(&SearchIndex) -> IndexResult<T> + Send + 'static,
) -> Result<(Vec<(Dataset, String)>, T)> {
    let (found, beside) = search_theses(cores, search, beside).await?;
    Ok((ids(Kind::Thesis, found), beside))
}

/// Reads theses in the order of likes (unknown likes last), then time, then id, all descending. The result includes all
/// writes acknowledged before.
pub async fn likes_page(
    cores: SearchCores<'_>,
    datasets: &Datasets,
    view: &View,
    narrow: SearchFilter,
    after: Option<(Option<i64>, i64, String)>,
    limit: usize,
) -> Result<Vec<ListedThesis>> {
    let mut position = 0;
    with_timeout(async {
        wait_until_complete(cores.index, view).await;
        for dataset in view.datasets() {
            let reached = datasets.refresh(dataset).await?;
            cores.index.wait_for_position(dataset, reached).await;
            if *dataset == Dataset::Live {
                position = reached;
            }
        }
        Ok(())
    })
    .await?;
    let after = after.as_ref().map(|(likes, created_at, id)| rank_of_likes((*likes, *created_at, id)));
    let (view, order) = (view.clone(), Order::Likes);
    let search = ThesisSearch { view, words: None, narrow, order, after, limit, position };
    let (found, ()) = search_theses(cores, search, |_| Ok(())).await?;
    Ok(found.into_iter().map(listed).collect())
}

async fn search_theses<T: Send + 'static>(
    cores: SearchCores<'_>,
    search: ThesisSearch,
    beside: impl FnOnce(&SearchIndex) -> IndexResult<T> + Send + 'static,
) -> Result<(Vec<(Rank, Dataset)>, T)> {
    let (searchers, missing) = match search.limit {
        0 => (Vec::new(), Vec::new()),
        _ => cores.index.searchers_and_missing(&search.view, Kind::Thesis, &search.narrow)?,
    };
    let search = Arc::new(search);
    let searching = async {
        let others = OtherMonths { cores, missing, failed: Mutex::default() };
        let statistics = others.count_all(&search, &searchers).await?;
        let (here, counted) = (Arc::clone(&search), statistics.clone());
        let in_turn = move |index: &SearchIndex| -> IndexResult<_> {
            let found = here.ranks(index, searchers, None, counted.as_ref())?;
            Ok((found, beside(index)?))
        };
        let cancellation = &search.narrow.cancellation;
        let (found, beside) = run_in_turn(cores.index, cores.organization, cancellation, in_turn).await?;
        Ok((others.add_theses(&search, found, statistics.as_ref()).await?, beside))
    };
    timeout(SEARCH_TIMEOUT, searching).await.unwrap_or_else(|_| Err(too_slow()))
}

/// The months that other cores must search.
struct OtherMonths<'a> {
    cores: SearchCores<'a>,
    missing: Vec<i64>,
    /// The cores that have failed.
    failed: Mutex<BTreeSet<String>>,
}

impl OtherMonths<'_> {
    /// Counts all months, here and elsewhere. None if the search needs no counts, or all months are here.
    async fn count_all(&self, search: &ThesisSearch, searchers: &[Vec<Searcher>]) -> Result<Option<Statistics>> {
        let Some(parsed) = search.parsed().filter(|_| !self.missing.is_empty() && search.needs_statistics()) else {
            return Ok(None);
        };
        let (shards, counted) = (searchers.concat(), parsed.clone());
        let in_turn = move |index: &SearchIndex| index.statistics(shards, &counted);
        let SearchCores { index, organization, .. } = self.cores;
        let here = async { run_in_turn(index, organization, &Cancellation::default(), in_turn).await };
        let elsewhere = async { self.request_all(&self.missing, &search.request(0)).await.map_err(Error::from) };
        let (mut total, responses) = tokio::try_join!(here, elsewhere)?;
        for response in responses {
            total.add(Statistics::from_message(response.statistics.unwrap_or_default()));
        }
        total.check_expansions(parsed)?;
        Ok(Some(total))
    }

    /// Adds the theses of the other months to those of this core, highest first.
    async fn add_theses(
        &self,
        search: &ThesisSearch,
        found: Vec<(Rank, Dataset)>,
        statistics: Option<&Statistics>,
    ) -> Result<Vec<(Rank, Dataset)>> {
        let lowest = search.lowest_of(&found);
        let mut months = self.missing.clone();
        months.retain(|month| search.may_find(*month, lowest));
        let request = v1::SearchMonthsRequest {
            lowest: lowest.map(message_of),
            statistics: statistics.map(Statistics::to_message),
            ..search.request(search.limit)
        };
        Ok(search.merge(found, &self.request_all(&months, &request).await?)?)
    }

    /// Sends a request to cores that together have all of some months.
    async fn request_all(
        &self,
        months: &[i64],
        request: &v1::SearchMonthsRequest,
    ) -> IndexResult<Vec<v1::SearchMonthsResponse>> {
        let SearchCores { peers, organization, .. } = self.cores;
        let (mut left, mut responses) = (months.to_vec(), Vec::new());
        while !left.is_empty() {
            let mut parts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
            for month in left.drain(..) {
                let mut cores = peers.cores_with_month(VERSION, month).into_iter();
                let core = cores.find(|core| !self.failed.lock().contains(core)).ok_or(SearchError::Closed)?;
                parts.entry(core).or_default().push(month);
            }
            let requests = parts.into_iter().map(|(core, months)| async move {
                let (core_id, organization) = (core.clone(), organization.to_owned());
                let request =
                    v1::SearchMonthsRequest { core: core_id, months: months.clone(), organization, ..request.clone() };
                (core, months, peers.search_months(request).await)
            });
            for (core, months, response) in join_all(requests).await {
                match response {
                    Ok(response) => responses.push(response),
                    Err(status) => {
                        tracing::debug!(core, status = status.message(), "a core did not search its months");
                        self.failed.lock().insert(core);
                        left.extend(months);
                    }
                }
            }
        }
        Ok(responses)
    }
}

/// Searches months for another core, or counts them if it wants no theses.
///
/// # Errors
/// `SERVICE_UNAVAILABLE` if a month is not here, or has not reached the position; those of [`run_in_turn`].
pub async fn search_here(
    index: &Arc<SearchIndex>,
    request: v1::SearchMonthsRequest,
) -> Result<v1::SearchMonthsResponse> {
    if request.version != VERSION {
        return Err(SearchError::Version.into());
    }
    with_timeout(async {
        index.wait_until_complete(&Dataset::Live).await;
        index.wait_for_position(&Dataset::Live, request.position).await;
        Ok(())
    })
    .await?;
    let searchers = index.searchers_of(&request.months)?;
    let search = ThesisSearch::from_request(&request)?;
    let (cancellation, organization) = (search.narrow.cancellation.clone(), request.organization.clone());
    let in_turn = move |index: &SearchIndex| response(index, searchers, &search, request);
    run_in_turn(index, &organization, &cancellation, in_turn).await
}

pub(super) fn response(
    index: &SearchIndex,
    searchers: Vec<Searcher>,
    search: &ThesisSearch,
    request: v1::SearchMonthsRequest,
) -> IndexResult<v1::SearchMonthsResponse> {
    if let Some(parsed) = search.parsed().filter(|_| search.limit == 0) {
        let statistics = Some(index.statistics(searchers, parsed)?.to_message());
        return Ok(v1::SearchMonthsResponse { statistics, ..v1::SearchMonthsResponse::default() });
    }
    let statistics = request.statistics.map(Statistics::from_message);
    let ranks = match search.ranks(index, vec![searchers], request.lowest.as_ref().map(rank_of), statistics.as_ref()) {
        // The other core has the sum, which is too high too.
        Err(SearchError::Exhausted) => Vec::new(),
        ranks => ranks?,
    };
    let ranks = ranks.into_iter().map(|(rank, _)| message_of(rank)).collect();
    let documents = search.narrow.cancellation.documents().saturating_sub(request.documents);
    Ok(v1::SearchMonthsResponse { ranks, statistics: None, documents })
}

//! Calls other cores for the months of a search that this core does not have.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use parking_lot::Mutex;
use tantivy::Searcher;
use thesis_proto::{error::ApiError, v1};
use tonic::{Code, Status};

use super::{SearchCores, ThesisSearch, message_of};
use crate::{
    domain::dataset::Dataset,
    error::{Error, Result},
    search::{
        Cancellation, SearchError, SearchIndex,
        best::Rank,
        run::{run_in_turn, too_slow},
        schema::VERSION,
        statistics::Statistics,
    },
};

/// The months that other cores must search.
pub(super) struct OtherMonths<'a> {
    cores: SearchCores<'a>,
    missing: Vec<i64>,
    failures: Mutex<Failures>,
}

/// The cores that are not requested again for a search.
#[derive(Default)]
struct Failures {
    cores: BTreeSet<String>,
    /// Cores with months that they did not have when they were called.
    months: BTreeSet<(String, i64)>,
    last: Option<Status>,
}

impl Failures {
    fn may_have(&self, core: &str, month: i64) -> bool {
        !self.cores.contains(core) && !self.months.contains(&(core.to_owned(), month))
    }

    /// The error of a search for which no core is left.
    fn error(&self) -> Error {
        match &self.last {
            Some(status) if status.code() == Code::ResourceExhausted => ApiError::from_status(status).into(),
            Some(status) if status.code() == Code::DeadlineExceeded => too_slow(),
            _ => SearchError::Closed.into(),
        }
    }
}

/// The months that are requested from one core.
#[derive(Default)]
struct Part {
    months: Vec<i64>,
    /// True if no other core is left for one of them, so this core may take the whole time of the search.
    is_last: bool,
}

impl<'a> OtherMonths<'a> {
    pub(super) fn new(cores: SearchCores<'a>, missing: Vec<i64>) -> Self {
        Self { cores, missing, failures: Mutex::default() }
    }

    /// Counts all months, here and elsewhere. None if the search needs no counts, or all months are here.
    pub(super) async fn count_all(
        &self,
        search: &ThesisSearch,
        searchers: &[Vec<Searcher>],
    ) -> Result<Option<Statistics>> {
        let Some(parsed) = search.parsed().filter(|_| !self.missing.is_empty() && search.needs_statistics()) else {
            return Ok(None);
        };
        let (shards, counted) = (searchers.concat(), parsed.clone());
        let in_turn = move |index: &SearchIndex| index.statistics(shards, &counted);
        let SearchCores { index, organization, .. } = self.cores;
        let here = async { run_in_turn(index, organization, &Cancellation::default(), in_turn).await };
        let elsewhere = async { self.request_all(&self.missing, &search.request(0)).await };
        let (mut total, responses) = tokio::try_join!(here, elsewhere)?;
        for response in responses {
            total.add(Statistics::from_message(response.statistics.unwrap_or_default()));
        }
        total.check_expansions(parsed)?;
        Ok(Some(total))
    }

    /// Adds the theses of the other months to those of this core, highest first.
    pub(super) async fn add_theses(
        &self,
        search: &ThesisSearch,
        found: Vec<(Rank, Dataset)>,
        statistics: Option<&Statistics>,
    ) -> Result<Vec<(Rank, Dataset)>> {
        if self.missing.is_empty() {
            return Ok(search.merge(found, &[])?);
        }
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

    /// Chooses the core that is requested for each month.
    fn parts(&self, months: &[i64]) -> Result<BTreeMap<String, Part>> {
        let failures = self.failures.lock();
        let mut parts: BTreeMap<String, Part> = BTreeMap::new();
        for month in months {
            let mut cores = self.cores.peers.cores_with_month(VERSION, *month);
            cores.retain(|core| failures.may_have(core, *month));
            let is_last = cores.len() == 1;
            let core = cores.into_iter().next().ok_or_else(|| failures.error())?;
            let part = parts.entry(core).or_default();
            part.months.push(*month);
            part.is_last |= is_last;
        }
        Ok(parts)
    }

    /// Sends a request to cores that together have all of some months.
    async fn request_all(
        &self,
        months: &[i64],
        request: &v1::SearchMonthsRequest,
    ) -> Result<Vec<v1::SearchMonthsResponse>> {
        let SearchCores { peers, organization, .. } = self.cores;
        let (mut left, mut responses) = (months.to_vec(), Vec::new());
        while !left.is_empty() {
            let parts = self.parts(&left)?;
            left.clear();
            let requests = parts.into_iter().map(|(core, Part { months, is_last })| async move {
                let (core_id, organization) = (core.clone(), organization.to_owned());
                let request =
                    v1::SearchMonthsRequest { core: core_id, months: months.clone(), organization, ..request.clone() };
                (core, months, peers.search_months(request, is_last).await)
            });
            for (core, months, response) in join_all(requests).await {
                let mut failures = self.failures.lock();
                match response {
                    Ok(response) => {
                        let lacking = months.into_iter().filter(|month| !response.months.contains(month));
                        for month in lacking {
                            failures.months.insert((core.clone(), month));
                            left.push(month);
                        }
                        responses.push(response);
                    }
                    Err(status) => {
                        tracing::debug!(core, status = status.message(), "a core did not search its months");
                        failures.cores.insert(core);
                        failures.last = Some(status);
                        left.extend(months);
                    }
                }
            }
        }
        Ok(responses)
    }
}

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
    /// The cores that failed, with their errors.
    cores: BTreeMap<String, Status>,
    /// Cores with months that they did not have when they were called.
    months: BTreeSet<(String, i64)>,
}

impl Failures {
    fn may_have(&self, core: &str, month: i64) -> bool {
        !self.cores.contains_key(core) && !self.months.contains(&(core.to_owned(), month))
    }

    /// Returns the error of a search after all cores of a month have failed. `cores` are the cores of the month, in the
    /// order of the calls. The error is that of the last call that failed.
    fn error(&self, cores: &[String]) -> Error {
        match cores.iter().rev().find_map(|core| self.cores.get(core)) {
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
            let cores = self.cores.peers.cores_with_month(VERSION, *month);
            let mut left = cores.iter().filter(|core| failures.may_have(core, *month));
            let core = left.next().ok_or_else(|| failures.error(&cores))?;
            let part = parts.entry(core.clone()).or_default();
            part.months.push(*month);
            part.is_last |= left.next().is_none();
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
                        failures.cores.insert(core, status);
                        left.extend(months);
                    }
                }
            }
        }
        Ok(responses)
    }
}

#[cfg(test)]
mod tests {
    use thesis_proto::error::ErrorCode;

    use super::*;

    #[test]
    fn a_failed_search_has_the_error_of_the_month_that_no_core_is_left_for() {
        let refusal = ApiError::new(ErrorCode::RateLimited, "too many searches").to_status("req_1");
        let failed = [
            ("refuses", refusal),
            ("late", Status::deadline_exceeded("late")),
            ("broken", Status::unavailable("broken")),
        ];
        let cores = failed.map(|(core, status)| (core.to_owned(), status)).into();
        let failures = Failures { cores, months: BTreeSet::from([("lacks".to_owned(), 7)]) };
        let error = |cores: &[&str]| failures.error(&cores.iter().map(ToString::to_string).collect::<Vec<_>>()).api;
        let (limited, closed) = (ErrorCode::RateLimited, ErrorCode::ServiceUnavailable);
        assert_eq!(error(&["refuses"]).code, limited);
        assert_eq!(error(&["broken", "refuses", "lacks"]).code, limited);
        assert_eq!(error(&["refuses", "broken"]).code, closed);
        for of_others in [&["lacks"][..], &["broken"], &[]] {
            let found = error(of_others);
            assert_eq!((found.code, &found.message), (closed, &ApiError::unavailable().message), "{of_others:?}");
        }
        let late = error(&["late", "lacks"]);
        assert_eq!((late.code, &late.message), (closed, &too_slow().api.message));
        assert_ne!(late.message, ApiError::unavailable().message);
    }
}

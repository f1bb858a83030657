//! Follows the logs with the index.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::ask::with_index;
use crate::{
    domain::{dataset::Dataset, entry::SequencedEntry},
    error::Result,
    log::datasets::Datasets,
    search::SearchIndex,
    shared::Shared,
    tables::log::decode,
};

/// How often the index looks for new entries: large commits cost less processor time for each thesis, and a search may
/// miss a second.
const FOLLOW_EVERY: Duration = Duration::from_millis(700);

/// How often a round follows another while more entries wait, counted from the other's end.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

/// How often the index tries again while a log cannot be followed or a commit fails.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Most entries read at once.
const BATCH: usize = 1_000;

/// Entries of `live`, of the sandbox, and of all projects together between two commits.
const ROUND: u64 = 20_000;

/// Most log positions read at once.
const MEASURED_AT_ONCE: usize = 8;

/// An index, the logs that it follows, and the token that stops it.
pub struct Follower {
    /// The index.
    pub index: Arc<SearchIndex>,
    /// How far the logs are projected.
    pub datasets: Arc<Datasets>,
    /// The logs.
    pub shared: Arc<Shared>,
    /// Stops it.
    pub stop: CancellationToken,
}

/// Takes new log entries into the index, until the core stops.
pub async fn follow(follower: Follower) {
    let mut checked = HashSet::new();
    loop {
        checked.extend(measure(&follower).await);
        let rest = advance(&follower, &mut checked).await;
        drop_unused(&follower).await;
        tokio::select! {
            biased;
            () = follower.stop.cancelled() => return,
            () = follower.index.wanted() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Reads how far logs reach that were asked for, if that is not known yet; gives the datasets that it checked.
pub(crate) async fn measure(follower: &Follower) -> Vec<Dataset> {
    let measured = stream::iter(follower.index.unmeasured()).map(|dataset| async move {
        let measured = async {
            let start = follower.datasets.refresh(&dataset).await?;
            if start > 0 {
                check(follower, &dataset).await?;
            }
            follower.index.measure(&dataset, start);
            Result::Ok(start > 0)
        };
        match measured.await {
            Ok(checked) => checked.then_some(dataset),
            Err(error) => {
                tracing::debug!(%dataset, %error, "reading how far a log reaches failed, trying again");
                None
            }
        }
    });
    measured.buffer_unordered(MEASURED_AT_ONCE).filter_map(std::future::ready).collect().await
}

/// Takes in some new entries of every dataset that the index follows; tells how long to rest.
pub(crate) async fn advance(follower: &Follower, checked: &mut HashSet<Dataset>) -> Duration {
    let (mut taken, mut more, mut failed) = (false, false, false);
    let mut positions = follower.datasets.positions();
    positions.retain(|(dataset, _)| follower.index.follows(dataset));
    // The project that lacks the fewest entries comes first, so that few of them keep none waiting.
    positions.sort_by_cached_key(|(dataset, upto)| upto.saturating_sub(follower.index.position(dataset)));
    let mut left_of_projects = ROUND;
    for (dataset, upto) in positions {
        let is_project = matches!(dataset, Dataset::Project(_));
        let max_entries = if is_project { left_of_projects } else { ROUND };
        // One log that cannot be read does not hold up the others.
        match take_in(follower, (&dataset, upto), max_entries, checked).await {
            Ok(Taken { entries, has_more }) => {
                taken |= entries > 0;
                more |= has_more;
                if is_project {
                    left_of_projects = left_of_projects.saturating_sub(entries);
                }
            }
            Err(error) => {
                tracing::warn!(%dataset, %error, "following a log with the search index failed");
                failed = true;
            }
        }
    }
    if taken && let Err(error) = with_index(&follower.index, SearchIndex::commit).await {
        tracing::warn!(%error, "committing the search index failed");
        failed = true;
    }
    match (failed, more) {
        (true, _) => AFTER_FAILURE,
        (false, true) => BETWEEN_ROUNDS,
        (false, false) => FOLLOW_EVERY,
    }
}

/// Drops the projects that nobody searches from an index in memory.
pub(crate) async fn drop_unused(follower: &Follower) {
    let unused = follower.index.unused(follower.shared.clock.now_ms());
    if unused.is_empty() {
        return;
    }
    tracing::debug!(projects = unused.len(), "dropping projects that nobody searches from the search index");
    if let Err(error) = with_index(&follower.index, move |index| index.drop_datasets(&unused)).await {
        tracing::warn!(%error, "dropping projects from the search index failed, trying again");
    }
}

/// The entries of a log that a round took in, and whether it left some.
struct Taken {
    entries: u64,
    has_more: bool,
}

/// Takes in new entries of one dataset up to a position, but no more than `max_entries`.
async fn take_in(
    follower: &Follower,
    (dataset, upto): (&Dataset, u64),
    max_entries: u64,
    checked: &mut HashSet<Dataset>,
) -> Result<Taken> {
    if upto > 0 && !checked.contains(dataset) {
        check(follower, dataset).await?;
        checked.insert(dataset.clone());
    }
    let start = follower.index.position(dataset);
    let end = upto.min(start + max_entries);
    let mut after = start;
    while after < end && !follower.stop.is_cancelled() {
        let rows = follower.shared.log.read(&dataset.to_string(), after, end, BATCH).await?;
        let Some((last, _)) = rows.last() else { break };
        after = *last;
        let dataset = dataset.clone();
        let entries = rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(body)? }));
        let entries = entries.collect::<Result<Vec<_>>>()?;
        with_index(&follower.index, move |index| index.apply(&dataset, &entries)).await?;
    }
    if start < after && end < upto {
        tracing::info!(%dataset, position = after, of = upto, "taking a log into the search index");
    }
    Ok(Taken { entries: after.saturating_sub(start), has_more: after == end && end < upto })
}

/// Forgets the dataset if the index is of another log: its store may be gone or another.
async fn check(follower: &Follower, dataset: &Dataset) -> Result<()> {
    let Some(mark) = follower.index.mark(dataset) else { return Ok(()) };
    let found = follower.shared.log.get(&dataset.to_string(), mark.seq).await?.map(decode).transpose()?;
    if found.is_some_and(|entry| entry.id == mark.id) {
        return Ok(());
    }
    tracing::warn!(%dataset, "the search index is of another log; taking this one in from its start");
    let forgotten = dataset.clone();
    with_index(&follower.index, move |index| {
        index.forget(&forgotten);
        index.commit()
    })
    .await
}

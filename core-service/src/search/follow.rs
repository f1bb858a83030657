//! The follower: it adds new log entries to the index.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::{
    copies::{copy_common, copy_months},
    run::with_index,
};
use crate::{
    domain::{dataset::Dataset, entry::SequencedEntry},
    error::Result,
    log::datasets::Datasets,
    replicas::peers::Peers,
    search::SearchIndex,
    shared::Shared,
    tables::log::decode,
};

/// Interval in which the follower reads new entries. Large commits cost less processor time for each thesis, and a
/// search may miss the last second.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(700);

/// Pause between two rounds while more entries wait.
const ROUND_PAUSE: Duration = Duration::from_millis(5);

/// Pause after a round in which a log cannot be read or a commit fails.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause before a closed index is opened again. It begins with the retry pause and doubles.
const MAX_REOPEN_PAUSE: Duration = Duration::from_secs(30);

/// Maximum number of entries in one read.
const READ_PAGE: usize = 1_000;

/// Maximum number of entries between two commits: for `live`, for the sandbox, and for all projects together.
const MAX_ROUND_ENTRIES: u64 = 20_000;

/// Number of log positions that are read concurrently.
const CONCURRENT_READS: usize = 8;

pub struct Follower {
    pub index: Arc<SearchIndex>,
    pub datasets: Arc<Datasets>,
    pub peers: Arc<Peers>,
    pub shared: Arc<Shared>,
    pub stop: CancellationToken,
}

/// Adds new log entries to the index, and copies months that it lacks beside that, until the core stops.
pub async fn follow(follower: Follower) {
    let copying = async {
        loop {
            follower.index.wait_for_missing_month().await;
            copy_missing(&follower).await;
        }
    };
    tokio::join!(follow_logs(&follower), follower.stop.run_until_cancelled(copying));
}

/// Copies the months that the index lacks from other cores.
pub(crate) async fn copy_missing(follower: &Follower) {
    let generation = follower.shared.generation.as_str();
    if let Err(error) = copy_months(&follower.index, &follower.peers, generation).await {
        tracing::debug!(%error, "copying months of the search index ended");
    }
}

async fn follow_logs(follower: &Follower) {
    let (mut checked, mut reopen_pause) = (HashSet::new(), RETRY_PAUSE);
    loop {
        let mut pause = round(follower, &mut checked).await;
        let is_open = follower.index.is_open();
        if !is_open {
            pause = reopen_pause;
            reopen_pause = (reopen_pause * 2).min(MAX_REOPEN_PAUSE);
        } else if !follower.index.is_failing() {
            reopen_pause = RETRY_PAUSE;
        }
        tokio::select! {
            biased;
            () = follower.stop.cancelled() => return,
            // Requests do not make a closed index try more often.
            () = follower.index.wait_for_demand(), if is_open => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Opens the index if it is closed, and one of its months. Adds some new entries, and some old ones to the months that
/// are rebuilt. Returns the pause before the next round.
pub(crate) async fn round(follower: &Follower, checked: &mut HashSet<Dataset>) -> Duration {
    if !follower.index.is_open() {
        // The checksums of a large index take a while, and so does a copy. A stop does not wait for them.
        if !matches!(follower.stop.run_until_cancelled(open_index(follower)).await, Some(Ok(()))) {
            return RETRY_PAUSE;
        }
        // The opened index may be another one.
        checked.clear();
    }
    let now_ms = follower.shared.clock.now_ms();
    let can_copy = !follower.peers.reachable().await.is_empty();
    let opening = with_index(&follower.index, move |index| index.open_month(now_ms, can_copy));
    let Some(Ok(is_opening)) = follower.stop.run_until_cancelled(opening).await else { return RETRY_PAUSE };
    checked.extend(read_starts(follower).await);
    let pause = advance(follower, checked).await;
    drop_unused(follower).await;
    place(follower, now_ms).await;
    follower.peers.publish_search(follower.index.searchable_part());
    match rebuild(follower).await {
        Ok(is_rebuilding) if (is_opening || is_rebuilding) && pause < RETRY_PAUSE => ROUND_PAUSE,
        Ok(_) => pause,
        Err(error) => {
            // The index has logged its failure.
            if follower.index.is_open() {
                tracing::warn!(%error, "building months of the search index again failed, trying again");
            }
            RETRY_PAUSE
        }
    }
}

/// Gets and deletes months as the live cores share them at a time.
pub(crate) async fn place(follower: &Follower, now_ms: i64) {
    let (own, others) = (follower.peers.own_address(), follower.peers.reachable().await);
    // An error closes the index, which has logged it.
    drop(with_index(&follower.index, move |index| index.place(&index.placement(own, others, now_ms))).await);
}

/// Opens the index. A core without a common shard gets a copy of another core's first, if there is one.
async fn open_index(follower: &Follower) -> Result<()> {
    let generation = follower.shared.generation.as_str().to_owned();
    copy_common(&follower.index, &follower.peers, &generation).await?;
    with_index(&follower.index, move |index| index.reopen(&generation)).await
}

/// Reads the start positions of requested datasets that have none yet. Returns the datasets that it checked.
pub(crate) async fn read_starts(follower: &Follower) -> Vec<Dataset> {
    let starts = stream::iter(follower.index.datasets_without_start()).map(|dataset| async move {
        let start = async {
            let start = follower.datasets.refresh(&dataset).await?;
            if start > 0 {
                check(follower, &dataset).await?;
            }
            follower.index.set_start(&dataset, start);
            Result::Ok(start > 0)
        };
        match start.await {
            Ok(checked) => checked.then_some(dataset),
            Err(error) => {
                tracing::debug!(%dataset, %error, "reading how far a log reaches failed, trying again");
                None
            }
        }
    });
    starts.buffer_unordered(CONCURRENT_READS).filter_map(std::future::ready).collect().await
}

/// Indexes some new entries of every dataset that the index follows. Returns the pause before the next round.
pub(crate) async fn advance(follower: &Follower, checked: &mut HashSet<Dataset>) -> Duration {
    let (mut indexed, mut more, mut failed) = (false, false, false);
    // Logs that have left memory are checked again when they come back.
    checked.retain(|dataset| follower.datasets.knows(dataset));
    let mut positions = follower.datasets.positions();
    positions.retain(|(dataset, _)| follower.index.follows(dataset));
    // The project that lacks the fewest entries comes first, so no project waits long for a few entries.
    positions.sort_by_cached_key(|(dataset, upto)| upto.saturating_sub(follower.index.position(dataset)));
    let mut left_of_projects = MAX_ROUND_ENTRIES;
    for (dataset, upto) in positions {
        let is_project = matches!(dataset, Dataset::Project(_));
        let max_entries = if is_project { left_of_projects } else { MAX_ROUND_ENTRIES };
        // A log that cannot be read does not delay the others.
        match index_entries(follower, (&dataset, upto), max_entries, checked).await {
            Ok(RoundResult { entries, has_more }) => {
                indexed |= entries > 0;
                more |= has_more;
                if is_project {
                    left_of_projects = left_of_projects.saturating_sub(entries);
                }
            }
            // The index has logged its failure.
            Err(_) if !follower.index.is_open() => return RETRY_PAUSE,
            Err(error) => {
                tracing::warn!(%dataset, %error, "following a log with the search index failed");
                failed = true;
            }
        }
    }
    // After a failure, a commit without new entries shows that the index works again.
    if indexed || follower.index.is_failing() {
        // The index logs a failed commit.
        failed |= with_index(&follower.index, SearchIndex::commit).await.is_err();
    }
    match (failed, more) {
        (true, _) => RETRY_PAUSE,
        (false, true) => ROUND_PAUSE,
        (false, false) => FOLLOW_INTERVAL,
    }
}

/// Drops unused projects from an index in memory.
async fn drop_unused(follower: &Follower) {
    let unused = follower.index.unused(follower.shared.clock.now_ms());
    if unused.is_empty() {
        return;
    }
    tracing::debug!(projects = unused.len(), "dropping projects that nobody searches from the search index");
    if let Err(error) = with_index(&follower.index, move |index| index.drop_datasets(&unused)).await {
        tracing::warn!(%error, "dropping projects from the search index failed, trying again");
    }
}

/// The result of a round for one log: the number of indexed entries, and whether more wait.
struct RoundResult {
    entries: u64,
    has_more: bool,
}

/// Indexes new entries of one dataset up to a position, but no more than `max_entries`.
async fn index_entries(
    follower: &Follower,
    (dataset, upto): (&Dataset, u64),
    max_entries: u64,
    checked: &mut HashSet<Dataset>,
) -> Result<RoundResult> {
    if upto > 0 && !checked.contains(dataset) {
        check(follower, dataset).await?;
        checked.insert(dataset.clone());
    }
    let start = follower.index.position(dataset);
    let end = upto.min(start + max_entries);
    let mut after = start;
    while after < end && !follower.stop.is_cancelled() {
        let entries = read_page(follower, dataset, after, end).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        let dataset = dataset.clone();
        with_index(&follower.index, move |index| index.apply(&dataset, &entries)).await?;
    }
    if start < after && end < upto {
        tracing::info!(%dataset, position = after, of = upto, "taking a log into the search index");
    }
    Ok(RoundResult { entries: after.saturating_sub(start), has_more: after == end && end < upto })
}

async fn read_page(follower: &Follower, dataset: &Dataset, after: u64, upto: u64) -> Result<Vec<SequencedEntry>> {
    let rows = follower.shared.log.read(&dataset.to_string(), after, upto, READ_PAGE).await?;
    rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(seq, body)? })).collect()
}

/// Adds the next entries of `live` to the months that are rebuilt. Returns whether there are such months.
async fn rebuild(follower: &Follower) -> Result<bool> {
    let range = with_index(&follower.index, SearchIndex::rebuild_range).await?;
    let Some((mut after, upto)) = range else { return Ok(false) };
    let end = upto.min(after + MAX_ROUND_ENTRIES);
    loop {
        // A page without entries completes months that lack nothing.
        let entries = if after < end { read_page(follower, &Dataset::Live, after, end).await? } else { Vec::new() };
        let last = entries.last().map(|last| last.seq);
        with_index(&follower.index, move |index| index.rebuild(&entries)).await?;
        let Some(last) = last else { break };
        after = last;
        if after >= end || follower.stop.is_cancelled() {
            break;
        }
    }
    tracing::info!(position = after, of = upto, "building months of the search index again");
    with_index(&follower.index, SearchIndex::commit).await?;
    Ok(true)
}

/// Forgets the dataset if the index holds another log: the store may have been deleted or replaced.
async fn check(follower: &Follower, dataset: &Dataset) -> Result<()> {
    let Some(mark) = follower.index.mark(dataset) else { return Ok(()) };
    let found = follower.shared.log.get(&dataset.to_string(), mark.seq).await?;
    let found = found.map(|body| decode(mark.seq, body)).transpose()?;
    if found.is_some_and(|entry| entry.id == mark.id) {
        return Ok(());
    }
    tracing::warn!(%dataset, "the search index is of another log; taking this one in from its start");
    let forgotten = dataset.clone();
    with_index(&follower.index, move |index| {
        index.forget(&forgotten)?;
        index.commit()
    })
    .await
}

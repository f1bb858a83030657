//! Searches theses, profiles and tokens, and reads theses in the order of likes: the index finds them, the store shows them
//! as they are now. The index follows the logs from here.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::try_join_all, stream};
use thesis_proto::{
    error::{ApiError, FieldError},
    v1,
};

use super::{
    core::Core,
    error::{Error, Result},
    gate::Call,
    list_theses::{still_there, with_references},
    resolve, tokens,
    writer::decode,
};
use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        entry::Sequenced,
        operation::Feature,
    },
    search::{Liked, Looked, Narrow, SearchError, SearchIndex},
};

/// How often the index looks for what is new: a commit costs the more processor time for a thesis the fewer it takes in, and a
/// search may miss a second.
const FOLLOW_EVERY: Duration = Duration::from_millis(700);
/// How long it rests while there is more.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);
/// How long it rests after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Entries read at once.
const BATCH: usize = 1_000;
/// Entries of one dataset between two commits.
const ROUND: u64 = 20_000;
/// Positions of logs read at once after the start.
const MEASURED_AT_ONCE: usize = 8;
/// Longest wait of an answer for the index.
const WAIT: Duration = Duration::from_millis(250);

/// What is searched for, its shape checked.
#[derive(Clone, Debug)]
pub struct Query {
    /// As given.
    pub text: String,
    /// As read.
    pub looked: Looked,
    /// Look for theses.
    pub theses: bool,
    /// Look for profiles.
    pub profiles: bool,
    /// Look for tokens.
    pub tokens: bool,
    /// The chain of theses and tokens.
    pub chain: Option<String>,
    /// The token of theses, and the tokens themselves: a reference.
    pub token: Option<String>,
    /// The author of theses, and the profile itself.
    pub handle: Option<String>,
    /// Of theses; inclusive, unix milliseconds.
    pub created_after: Option<i64>,
    /// Of theses; inclusive, unix milliseconds.
    pub created_before: Option<i64>,
    /// The newest theses first, not the best matches.
    pub newest: bool,
    /// Rows of each kind.
    pub limit: usize,
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        Self { api: Box::new(ApiError::unavailable()), why: Some(error.to_string()) }
    }
}

/// Works with the index on a thread that may block.
async fn with_index<T: Send + 'static>(
    core: &Core,
    work: impl FnOnce(&SearchIndex) -> std::result::Result<T, SearchError> + Send + 'static,
) -> Result<T> {
    let index = Arc::clone(&core.search);
    Ok(tokio::task::spawn_blocking(move || work(&index)).await.map_err(Error::internal)??)
}

/// Waits for the index a little; one that is not there by then cannot be answered from.
async fn in_time(there: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::time::timeout(WAIT, there).await.map_err(|_| {
        let why = "the search index is behind".to_owned();
        Error { api: Box::new(ApiError::unavailable()), why: Some(why) }
    })?
}

/// Waits until the index has once held all that the logs of a view held when this core started: an answer from a part of
/// it would look like the whole.
async fn whole(core: &Core, view: &View) {
    for dataset in view.datasets() {
        core.search.whole(dataset).await;
    }
}

/// Searches.
///
/// # Errors
/// `HISTORY_LIMIT`, 422 on `token`, `SERVICE_UNAVAILABLE` while the index is made after a start, or when store or index do
/// not answer.
pub async fn search(core: &Core, call: &Call, query: Query) -> Result<v1::SearchResult> {
    let view = &call.caller.view;
    let narrow = narrow(core, call, &query).await?;
    in_time(async {
        whole(core, view).await;
        Ok(())
    })
    .await?;
    let Query { text, looked, limit, newest, .. } = query;
    let of = move |wanted: bool, limit: usize| if wanted { limit } else { 0 };
    let searched = view.clone();
    let (theses, profiles, tokens) = with_index(core, move |index| {
        // Some may be deleted by now.
        let theses = index.theses(&searched, &looked, &narrow, newest, of(query.theses, 2 * limit))?;
        let profiles = index.profiles(&searched, &looked, &narrow, of(query.profiles, limit))?;
        let tokens = index.tokens(&searched, &looked, &narrow, of(query.tokens, limit))?;
        Ok((theses, profiles, tokens))
    })
    .await?;
    Ok(v1::SearchResult {
        query: text,
        theses: shown_theses(core, theses, limit).await?,
        profiles: shown_profiles(core, &profiles).await?,
        tokens: shown_tokens(core, call, &tokens).await?,
        livemode: view.livemode(),
    })
}

async fn narrow(core: &Core, call: &Call, query: &Query) -> Result<Narrow> {
    let (shared, view) = (&core.shared, &call.caller.view);
    let floor = call.history_floor(query.created_after)?;
    // No row has an empty id: what is narrowed to the unknown is empty.
    let profile = match &query.handle {
        Some(handle) => Some(shared.theses.profile_id_by_handle(view, handle).await?.unwrap_or_default()),
        None => None,
    };
    let tokens = match &query.token {
        Some(token) => Some(resolve::token_ids(shared, view, token, query.chain.as_deref()).await?),
        None => None,
    };
    if tokens.as_ref().is_some_and(|tokens| tokens.len() > resolve::MAX_TOKENS) {
        let rule = format!("names more than {} tokens; give chain or address", resolve::MAX_TOKENS);
        return Err(ApiError::validation(&[FieldError::new("token", rule)]).into());
    }
    let to = query.created_before.unwrap_or(i64::MAX);
    Ok(Narrow { profile, tokens, chain: query.chain.clone(), floor, to })
}

fn keys(found: &[(Dataset, String)]) -> Vec<(String, &str)> {
    found.iter().map(|(dataset, id)| (dataset.to_string(), id.as_str())).collect()
}

async fn shown_theses(core: &Core, found: Vec<(Dataset, String)>, limit: usize) -> Result<Vec<v1::Thesis>> {
    let mut there = still_there(&core.shared.theses, found).await?;
    there.truncate(limit);
    Ok(with_references(&core.shared.theses, &there).await?)
}

async fn shown_profiles(core: &Core, found: &[(Dataset, String)]) -> Result<Vec<v1::Profile>> {
    let with_wallet = core.gate.features().has(Feature::Wallets);
    let rows = core.shared.theses.profiles(&keys(found)).await?;
    let shown = |((dataset, _), row): (&(Dataset, String), Option<_>)| -> Option<v1::Profile> {
        Some(convert::row::profile(dataset, row.as_deref()?, with_wallet))
    };
    Ok(found.iter().zip(rows).filter_map(shown).collect())
}

async fn shown_tokens(core: &Core, call: &Call, found: &[(Dataset, String)]) -> Result<Vec<v1::Token>> {
    let rows = core.shared.theses.tokens(&keys(found)).await?;
    let there = found.iter().zip(rows).filter_map(|((dataset, _), row)| Some((dataset, row?)));
    try_join_all(there.map(|(dataset, token)| async move { tokens::counted(core, call, dataset, &token).await })).await
}

/// Reads theses in the order of likes, exactly as they are after every write that was acknowledged before.
///
/// # Errors
/// `SERVICE_UNAVAILABLE` when the index is not there within 250 ms, or when store or index do not answer.
pub async fn likes_page(
    core: &Core,
    view: &View,
    narrow: Narrow,
    after: Option<(Option<i64>, i64, String)>,
    limit: usize,
) -> Result<Vec<Liked>> {
    in_time(async {
        whole(core, view).await;
        for dataset in view.datasets() {
            core.search.reach(dataset, core.datasets.refresh(dataset).await?).await;
        }
        Ok(())
    })
    .await?;
    let view = view.clone();
    with_index(core, move |index| {
        let after = after.as_ref().map(|(likes, created_at, id)| (*likes, *created_at, id.as_str()));
        index.likes_page(&view, &narrow, after, limit)
    })
    .await
}

/// Takes what is appended to the logs into the index, until the core stops.
pub async fn follow(core: Arc<Core>) {
    let mut checked = HashSet::new();
    loop {
        checked.extend(measure(&core).await);
        let rest = advance(&core, &mut checked).await;
        tokio::select! {
            biased;
            () = core.stop.cancelled() => return,
            () = core.search.wanted() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Reads how far the logs reach that there were at the start, if that is not known yet; gives those that were checked.
async fn measure(core: &Core) -> Vec<Dataset> {
    let measured = stream::iter(core.search.unmeasured()).map(|dataset| async move {
        let measured = async {
            let start = core.datasets.refresh(&dataset).await?;
            if start > 0 {
                check(core, &dataset).await?;
            }
            core.search.measure(&dataset, start);
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

/// Takes in some of what is new in every dataset; tells how long to rest.
async fn advance(core: &Core, checked: &mut HashSet<Dataset>) -> Duration {
    let (mut taken, mut more, mut failed) = (false, false, false);
    for (dataset, upto) in core.datasets.positions() {
        // One log that cannot be read does not hold up the others.
        match take_in(core, &dataset, upto, checked).await {
            Ok(found) => {
                taken |= found.is_some();
                more |= found == Some(Left::More);
            }
            Err(error) => {
                tracing::warn!(%dataset, %error, "following a log with the search index failed");
                failed = true;
            }
        }
    }
    if taken && let Err(error) = with_index(core, SearchIndex::commit).await {
        tracing::warn!(%error, "committing the search index failed");
        failed = true;
    }
    match (failed, more) {
        (true, _) => AFTER_FAILURE,
        (false, true) => BETWEEN_ROUNDS,
        (false, false) => FOLLOW_EVERY,
    }
}

/// What a round leaves of a log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    More,
}

/// Takes in some of what is new in one dataset; tells what is left, when there was any.
async fn take_in(core: &Core, dataset: &Dataset, upto: u64, checked: &mut HashSet<Dataset>) -> Result<Option<Left>> {
    if upto > 0 && !checked.contains(dataset) {
        check(core, dataset).await?;
        checked.insert(dataset.clone());
    }
    let start = core.search.position(dataset);
    let end = upto.min(start + ROUND);
    let mut after = start;
    while after < end && !core.stop.is_cancelled() {
        let rows = core.shared.log.read(&dataset.to_string(), after, end, BATCH).await?;
        let Some((last, _)) = rows.last() else { break };
        after = *last;
        let dataset = dataset.clone();
        let entries = rows.into_iter().map(|(seq, body)| Ok(Sequenced { seq, entry: decode(body)? }));
        let entries = entries.collect::<Result<Vec<_>>>()?;
        with_index(core, move |index| index.apply(&dataset, &entries)).await?;
    }
    if end < upto {
        tracing::info!(%dataset, position = after, of = upto, "taking a log into the search index");
    }
    let left = if after == end && end < upto { Left::More } else { Left::Nothing };
    Ok((after > start).then_some(left))
}

/// An index that outlived its store, or stands beside another one, is of another log.
async fn check(core: &Core, dataset: &Dataset) -> Result<()> {
    let Some(mark) = core.search.mark(dataset) else { return Ok(()) };
    let found = core.shared.log.get(&dataset.to_string(), mark.seq).await?.map(decode).transpose()?;
    if found.is_some_and(|entry| entry.id == mark.id) {
        return Ok(());
    }
    tracing::warn!(%dataset, "the search index is of another log; taking this one in from its start");
    let forgotten = dataset.clone();
    with_index(core, move |index| {
        index.forget(&forgotten);
        index.commit()
    })
    .await
}

#[cfg(test)]
mod tests;

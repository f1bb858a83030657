//! Copies of shards from other cores.
//!
//! A core that lacks a shard in its folder, or holds one that cannot be used, copies it from another core. It reads the
//! log from its start only when no core has the shard, when the copy fails twice, or when no core that may have it is
//! reached for half a minute. The common shard comes first: it has the positions in all logs, and names the months. The
//! months follow, the newest first, while the core follows the logs.
//!
//! A copy is a shard as of a commit. The note of a month says up to which sequence number of `live` the copy holds the
//! log, so the core reads only what came later. Files of the index never change, and the sender keeps those of the
//! commit until the copy ends. The receiver verifies their checksums before it puts the copy in place of the shard.

mod received;
mod sent;

use std::{io, sync::Arc, time::Duration};

use futures::StreamExt as _;
use thesis_net::services::Stream;
use thesis_proto::v1;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request, Status};

use super::{SearchError, SearchIndex, schema::VERSION, shard::Shard};
use crate::{
    domain::id,
    replicas::{members::OtherCore, peers::Peers},
};

pub use self::sent::send_shard;

/// Number of failures after which a core builds a shard from the log.
const MAX_FAILURES: usize = 2;
/// Time limit for the next piece of a copy.
const PIECE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a core requests a copy again while no other can send it now.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a core no longer waits for cores that are not reached, or that open their index. A core that
/// crashed is no longer a member before that.
const UNREACHED_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
enum CopyError {
    /// The other core does not have the whole shard, or does not know this call.
    #[error("another core sends no copy: {0}")]
    Refused(String),
    /// The other core is not reached, or does not serve yet.
    #[error("another core sends no copy now: {0}")]
    Unreached(String),
    #[error("another core sends as many copies as it may")]
    Busy,
    #[error("the copy broke off: {0}")]
    Broken(String),
    #[error(transparent)]
    Index(#[from] SearchError),
}

/// The result of the attempts to copy a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyOutcome {
    Copied,
    /// Some core may have the shard, but sends as many copies as it may.
    Busy,
    /// Some core may have the shard, but was not reached.
    Unreached,
    /// The shard must be built from the log.
    Unavailable,
}

/// Copies the common shard if the folder of a closed index has none for these logs. Without a copy the index may be
/// opened all the same: it is then built from the logs.
///
/// # Errors
/// `Busy` while other cores send as many copies as they may.
pub(super) async fn copy_common(index: &Arc<SearchIndex>, peers: &Peers, generation: &str) -> Result<(), SearchError> {
    let (checked, of_logs) = (Arc::clone(index), generation.to_owned());
    let is_missing = blocking(move || Ok(checked.lacks_common(&of_logs))).await?;
    if !is_missing {
        return Ok(());
    }
    let give_up_at = Instant::now() + UNREACHED_TIMEOUT;
    loop {
        match copy_shard(index, peers, Shard::Common, generation).await {
            CopyOutcome::Busy => return Err(SearchError::Busy),
            CopyOutcome::Unreached if Instant::now() < give_up_at => sleep(RETRY_PAUSE).await,
            CopyOutcome::Copied | CopyOutcome::Unreached | CopyOutcome::Unavailable => return Ok(()),
        }
    }
}

/// Copies the months that wait for it, one after the other. Those without a copy are left to be built from the log.
///
/// # Errors
/// Fails when the index is closed.
pub(super) async fn copy_months(index: &Arc<SearchIndex>, peers: &Peers, generation: &str) -> Result<(), SearchError> {
    // One time limit for all months: those that are built from the log together read it once.
    let mut give_up_at = Instant::now() + UNREACHED_TIMEOUT;
    loop {
        let waiting = Arc::clone(index);
        let Some(month) = blocking(move || waiting.month_to_copy()).await? else { return Ok(()) };
        match copy_shard(index, peers, month, generation).await {
            CopyOutcome::Copied => give_up_at = Instant::now() + UNREACHED_TIMEOUT,
            CopyOutcome::Busy => sleep(RETRY_PAUSE).await,
            CopyOutcome::Unreached if Instant::now() < give_up_at => sleep(RETRY_PAUSE).await,
            // A core that the store does not reach sees no others, although these may have the month.
            _ if !peers.has_recent_heartbeat() => sleep(RETRY_PAUSE).await,
            CopyOutcome::Unreached | CopyOutcome::Unavailable => {
                let waiting = Arc::clone(index);
                blocking(move || waiting.give_up_copy(month)).await?;
            }
        }
    }
}

async fn copy_shard(index: &Arc<SearchIndex>, peers: &Peers, shard: Shard, generation: &str) -> CopyOutcome {
    let mut sources = peers.reachable().await;
    let name = shard.to_string();
    // Cores with recent heartbeats come first, and each shard has its own order of them.
    sources.sort_by_cached_key(|source| (!source.owns, id::derive("", &[&source.replica, &name])));
    let (mut failures, mut is_busy, mut is_unreached) = (0, false, false);
    for _ in 0..MAX_FAILURES {
        for source in &sources {
            match copy_from(source, index, peers, shard, generation).await {
                Ok(()) => return CopyOutcome::Copied,
                Err(CopyError::Busy) => is_busy = true,
                Err(CopyError::Refused(reason)) => {
                    tracing::debug!(%shard, core = source.address, reason, "a core sends no copy of a shard");
                }
                Err(CopyError::Unreached(reason)) => {
                    tracing::debug!(%shard, core = source.address, reason, "a core sends no copy of a shard now");
                    is_unreached = true;
                }
                Err(error) => {
                    tracing::warn!(%shard, core = source.address, %error, "copying a part of the search index failed");
                    failures += 1;
                    if failures == MAX_FAILURES {
                        return CopyOutcome::Unavailable;
                    }
                }
            }
        }
        if failures == 0 {
            break;
        }
    }
    match (is_busy, is_unreached) {
        (true, _) => CopyOutcome::Busy,
        (false, true) => CopyOutcome::Unreached,
        (false, false) => CopyOutcome::Unavailable,
    }
}

/// Copies a shard from one core, and puts it in place if this core still needs it.
async fn copy_from(
    source: &OtherCore,
    index: &Arc<SearchIndex>,
    peers: &Peers,
    shard: Shard,
    generation: &str,
) -> Result<(), CopyError> {
    let core = peers.connect(source).map_err(|error| CopyError::Refused(error.to_string()))?;
    let (replica, generation) = (source.replica.clone(), generation.to_owned());
    let request = v1::CopyShardRequest {
        core: replica,
        shard: shard.to_string(),
        version: VERSION,
        generation: generation.clone(),
    };
    let mut pieces = match timeout(PIECE_TIMEOUT, core.copy_shard(Request::new(request))).await {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) => return Err(refusal(&status)),
        Err(late) => return Err(CopyError::Unreached(late.to_string())),
    };
    let files = next_piece(&mut pieces).await?.and_then(|piece| piece.files).ok_or(SearchError::Damaged)?;
    let receiver = Arc::clone(index);
    let mut copy = blocking(move || receiver.start_receiving(shard, files)).await?;
    while let Some(piece) = next_piece(&mut pieces).await? {
        copy = blocking(move || {
            copy.write(&piece.data)?;
            Ok(copy)
        })
        .await?;
    }
    let receiver = Arc::clone(index);
    let is_installed = blocking(move || {
        copy.verify(&generation)?;
        receiver.install(&copy)
    })
    .await?;
    if is_installed {
        tracing::info!(%shard, core = source.address, "copied a part of the search index");
    }
    Ok(())
}

/// The reason for which another core sends no copy.
fn refusal(status: &Status) -> CopyError {
    let reason = status.message().to_owned();
    match status.code() {
        Code::ResourceExhausted => CopyError::Busy,
        // It is another core, of another version or of other logs, or does not have the shard.
        Code::Unimplemented | Code::FailedPrecondition | Code::NotFound => CopyError::Refused(reason),
        _ => CopyError::Unreached(reason),
    }
}

async fn next_piece(pieces: &mut Stream<v1::CopyShardResponse>) -> Result<Option<v1::CopyShardResponse>, CopyError> {
    let next = timeout(PIECE_TIMEOUT, pieces.next()).await.map_err(|late| CopyError::Broken(late.to_string()))?;
    next.transpose().map_err(|status| CopyError::Broken(status.message().to_owned()))
}

/// Runs work on files on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    thesis_net::blocking::run(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_may_have_the_shard_later_is_requested_again() {
        assert!(matches!(refusal(&Status::resource_exhausted("")), CopyError::Busy));
        for refused in [Status::unimplemented(""), Status::failed_precondition(""), Status::not_found("")] {
            assert!(matches!(refusal(&refused), CopyError::Refused(_)), "{refused}");
        }
        for later in [Status::unavailable(""), Status::deadline_exceeded(""), Status::unauthenticated("")] {
            assert!(matches!(refusal(&later), CopyError::Unreached(_)), "{later}");
        }
    }
}

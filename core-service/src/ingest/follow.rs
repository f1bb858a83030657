//! Follows the upstream's feed from the stored checkpoint. The checkpoint advances only behind frames that are applied.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use thesis_net::{backoff::Backoff, sse::Parser};
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    client::{Feed, FeedError},
    feed_checkpoint::FeedCheckpoint,
    frames::{self, Frame, FrameContent, MAX_FRAME},
    objects::Refusal,
    status::SILENCE_MS,
    upstream::Upstream,
};
use crate::domain::{
    observation::{Observation, ObservedThing},
    window::MINUTE_MS,
};

/// Interval in which a core checks whether it leads.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two writes of the checkpoint while it advances.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two comparisons of a sample with the upstream.
const COMPARE_INTERVAL: Duration = Duration::from_mins(5);
/// The first and the maximum pause before the feed is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// Maximum pause that the upstream may request.
const MAX_REQUESTED_PAUSE: Duration = Duration::from_hours(1);
/// Pause before frames that could not be applied are tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Number of pending observations from which the feed is not read on.
const MAX_PENDING: usize = 1_000;
/// Maximum number of tokens whose theses are counted.
const MAX_BUSY: usize = 10_000;
/// Time before a break of the feed whose changes are looked up too, in milliseconds: the feed may deliver them late.
const LATE_MS: i64 = MINUTE_MS;

/// Frames that were read and are not applied yet.
#[derive(Default)]
struct PendingFrames {
    observations: Vec<Observation>,
    position: Option<String>,
    /// The time of their newest change, by the upstream's clock.
    until: i64,
    frames: usize,
}

struct Connection<'a> {
    upstream: Arc<Upstream>,
    checkpoint: &'a mut FeedCheckpoint,
    /// True if the feed begins now, not behind a position.
    begins_now: bool,
    /// The upstream's clock less this one's, in milliseconds.
    ahead_ms: i64,
    pending: PendingFrames,
    received_at: Instant,
}

impl Upstream {
    /// Follows the feed while this core leads, until stopped.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::new(FIRST_PAUSE, MAX_PAUSE);
        let mut compare_at = Instant::now() + COMPARE_INTERVAL;
        // None until this core leads and has read the checkpoint.
        let mut checkpoint: Option<FeedCheckpoint> = None;
        let following = async {
            loop {
                if !self.leads() {
                    checkpoint = None;
                    sleep(POLL_INTERVAL).await;
                    continue;
                }
                // Lookups work even if the feed is not available.
                self.catch_up(&stop);
                let ended = self.follow_once(&stop, &mut backoff, &mut compare_at, &mut checkpoint).await;
                self.status.set_connected(false);
                self.leave(&mut checkpoint).await;
                let Err(FeedEnd { why, after_s }) = ended else { continue };
                self.status.failed("the feed", &why);
                let requested = Duration::from_secs(after_s.unwrap_or_default()).min(MAX_REQUESTED_PAUSE);
                sleep(backoff.next(self.shared.ids.as_ref()).max(requested)).await;
            }
        };
        stop.run_until_cancelled(following).await;
        // Otherwise the next start would repeat lookups.
        self.leave(&mut checkpoint).await;
    }

    /// Stores the checkpoint after a connection has ended. If another core leads, that core stores its own.
    async fn leave(&self, checkpoint: &mut Option<FeedCheckpoint>) {
        if !self.leads() {
            *checkpoint = None;
        }
        if let Some(checkpoint) = checkpoint {
            checkpoint.leave().await;
        }
    }

    /// Opens the feed and follows it until it breaks or this core no longer leads.
    async fn follow_once(
        self: &Arc<Self>,
        stop: &CancellationToken,
        backoff: &mut Backoff,
        compare_at: &mut Instant,
        checkpoint: &mut Option<FeedCheckpoint>,
    ) -> Result<(), FeedEnd> {
        let checkpoint = match checkpoint {
            Some(checkpoint) => checkpoint,
            None => {
                let read = FeedCheckpoint::read(self).await.map_err(|error| FeedEnd::because(error.to_string()))?;
                checkpoint.insert(read)
            }
        };
        let is_first = checkpoint.take_first();
        let feed = match self.client.feed(checkpoint.feed.position.as_deref()).await {
            Err(FeedError::PositionLost { .. }) if checkpoint.feed.position.is_some() => {
                checkpoint.feed.position = None;
                self.client.feed(None).await?
            }
            opened => opened?,
        };
        let begins_now = checkpoint.feed.position.is_none();
        if begins_now && !is_first {
            // The open feed delivers only later changes. Lookups that begin now find all earlier ones.
            self.add_pending(checkpoint.feed.known_until - LATE_MS);
        }
        let now_ms = self.now_ms();
        self.status.set_connected(true);
        self.status.received(now_ms);
        // The position counts until the next frame with a position, even if another core reached it.
        self.status.applied_up_to(checkpoint.feed.position.as_deref(), None);
        checkpoint.open(now_ms);
        let mut connection = Connection {
            upstream: Arc::clone(self),
            begins_now,
            checkpoint,
            ahead_ms: 0,
            pending: PendingFrames::default(),
            received_at: Instant::now(),
        };
        connection.read(feed, stop, backoff, compare_at).await
    }
}

/// The reason why a connection to the feed ended.
struct FeedEnd {
    why: String,
    /// The pause that the upstream requests, in seconds.
    after_s: Option<u64>,
}

impl FeedEnd {
    fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), after_s: None }
    }
}

impl From<FeedError> for FeedEnd {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::PositionLost { .. } => Self::because("it has no position to begin at"),
            FeedError::Failed { why, retry_after_s, .. } => Self { why, after_s: retry_after_s },
        }
    }
}

impl Connection<'_> {
    /// Reads the feed while earlier frames are applied.
    async fn read(
        &mut self,
        feed: Feed,
        stop: &CancellationToken,
        backoff: &mut Backoff,
        compare_at: &mut Instant,
    ) -> Result<(), FeedEnd> {
        // None once the feed has ended: the upstream gets one connection at most.
        let mut feed = Some(feed);
        let mut parser = Parser::new(MAX_FRAME);
        let mut tick = interval(CHECKPOINT_INTERVAL);
        let mut applying: Option<BoxFuture<'static, PendingFrames>> = None;
        let mut ended: Option<Result<(), FeedEnd>> = None;
        loop {
            if ended.is_some() {
                feed = None;
            }
            if applying.is_none() {
                if self.pending.frames > 0 {
                    applying =
                        Some(Box::pin(apply_frames(Arc::clone(&self.upstream), std::mem::take(&mut self.pending))));
                } else if let Some(ended) = ended {
                    return ended;
                }
            }
            let is_open = ended.is_none() && self.pending.observations.len() < MAX_PENDING;
            tokio::select! {
                piece = next_piece(&mut feed), if is_open => match piece {
                    Some(Ok(bytes)) => self.receive(&mut parser, &bytes),
                    Some(Err(why)) => ended = Some(Err(FeedEnd::because(why))),
                    None => ended = Some(Err(FeedEnd::because("it ended"))),
                },
                applied = wait_for_applied(&mut applying) => {
                    applying = None;
                    // A feed that opens and breaks at once is not opened again without pauses.
                    if !applied.observations.is_empty() {
                        backoff.reset();
                    }
                    self.advance(applied);
                }
                _ = tick.tick() => {
                    if is_open && self.received_at.elapsed() > silence() {
                        self.upstream.add_pending(self.checkpoint.feed.known_until - LATE_MS);
                        ended = Some(Err(FeedEnd::because("it was silent for too long")));
                    }
                    self.checkpoint.keep_if_due().await;
                    self.upstream.catch_up(stop);
                    if Instant::now() >= *compare_at {
                        *compare_at = Instant::now() + COMPARE_INTERVAL;
                        let upstream = Arc::clone(&self.upstream);
                        tokio::spawn(async move { upstream.compare_sample().await });
                    }
                    if !self.upstream.leads() {
                        ended.get_or_insert(Ok(()));
                    }
                }
            }
        }
    }

    /// Splits a piece of the feed into frames and adds them to the pending ones.
    fn receive(&mut self, parser: &mut Parser, bytes: &[u8]) {
        let upstream = Arc::clone(&self.upstream);
        let now_ms = upstream.now_ms();
        self.received_at = Instant::now();
        upstream.status.received(now_ms);
        self.checkpoint.feed.received_at = now_ms;
        for event in parser.read(bytes) {
            let Some(Frame { position, kind, content }) = frames::read(event, now_ms) else { continue };
            upstream.status.count_frame(kind, now_ms);
            self.checkpoint.feed.last_frame_at = Some(now_ms);
            match content {
                FrameContent::Open { now_ms: theirs } => {
                    self.ahead_ms = theirs - now_ms;
                    if self.begins_now {
                        self.pending.until = theirs;
                    }
                }
                FrameContent::Observations(observations) => {
                    let changed_at = observations.iter().filter_map(|observation| observation.revision).max();
                    let changed_at = changed_at.unwrap_or_default().min(now_ms + self.ahead_ms);
                    self.pending.until = self.pending.until.max(changed_at);
                    note_busy(&upstream, &observations);
                    self.pending.observations.extend(observations);
                }
                FrameContent::Gap { since_ms } => upstream.add_pending(since_ms),
                FrameContent::Refused(refusal) => {
                    upstream.status.count_refused(refusal);
                    if kind == "gap" && !matches!(refusal, Refusal::Position) {
                        upstream.add_pending(self.checkpoint.feed.known_until - LATE_MS);
                    }
                }
            }
            self.pending.position = position.or_else(|| self.pending.position.take());
            self.pending.frames += 1;
        }
    }

    /// Advances the checkpoint behind the applied frames.
    fn advance(&mut self, applied: PendingFrames) {
        let changed_at = applied.observations.last().and_then(|observation| observation.revision);
        let lag = changed_at.map(|at| (self.upstream.now_ms() + self.ahead_ms - at).max(0));
        self.upstream.status.applied_up_to(applied.position.as_deref(), lag);
        self.checkpoint.advance_to(applied.position, applied.until);
    }
}

fn silence() -> Duration {
    Duration::from_millis(SILENCE_MS.unsigned_abs())
}

fn note_busy(upstream: &Upstream, observations: &[Observation]) {
    let mut busy = upstream.busy.lock();
    for observation in observations {
        let ObservedThing::Thesis(seen) = &observation.seen else { continue };
        let of = (seen.token.chain.clone(), seen.token.address.clone());
        if busy.len() < MAX_BUSY || busy.contains_key(&of) {
            *busy.entry(of).or_default() += 1;
        }
    }
}

/// Applies observations. It tries again until the store takes them.
async fn apply_frames(upstream: Arc<Upstream>, pending: PendingFrames) -> PendingFrames {
    while let Err(error) = upstream.intake.apply(&pending.observations).await {
        tracing::warn!(%error, "taking in the feed failed, trying again");
        sleep(RETRY_PAUSE).await;
    }
    pending
}

async fn next_piece(feed: &mut Option<Feed>) -> Option<Result<Bytes, String>> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

async fn wait_for_applied(applying: &mut Option<BoxFuture<'static, PendingFrames>>) -> PendingFrames {
    match applying {
        Some(applying) => applying.await,
        None => std::future::pending().await,
    }
}

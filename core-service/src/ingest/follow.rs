//! Follows the upstream's feed, from the place that is kept. The place moves only with what was taken in.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use thesis_net::{backoff::Backoff, sse::Parser};
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    client::{Feed, FeedError},
    frames::{self, Frame, MAX_FRAME, Said},
    objects::Refusal,
    place::Place,
    status::SILENCE_MS,
    upstream::Upstream,
};
use crate::domain::{
    observation::{Observation, ObservedThing},
    window::MINUTE_MS,
};

/// How often a core looks whether it leads.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How often the place is kept, if it moved.
const KEEP_EVERY: Duration = Duration::from_millis(250);
/// How often a sample is compared with the upstream.
const COMPARE_EVERY: Duration = Duration::from_mins(5);
/// The first and the longest pause before the feed is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// Longest pause that the upstream may ask for.
const MAX_TOLD: Duration = Duration::from_hours(1);
/// The pause before what could not be taken in is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// Most observations that wait to be taken in; then the feed is not read.
const MAX_WAITING: usize = 1_000;
/// Most tokens whose theses are counted.
const MAX_BUSY: usize = 10_000;
/// Changes of the last time before a break that are looked up with those of the break, in milliseconds: the feed may tell
/// them late.
const LATE_MS: i64 = MINUTE_MS;

/// Frames that were read and are not taken in.
#[derive(Default)]
struct Waiting {
    observations: Vec<Observation>,
    position: Option<String>,
    /// The newest change that they tell, by the upstream's clock.
    until: i64,
    frames: usize,
}

/// A connection to the feed.
struct Connection<'a> {
    upstream: Arc<Upstream>,
    place: &'a mut Place,
    /// It begins now, not behind a position.
    begins_now: bool,
    /// The upstream's clock less this one's, in milliseconds.
    ahead_ms: i64,
    waiting: Waiting,
    received_at: Instant,
}

impl Upstream {
    /// Follows the feed while this core leads, until stopped.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::new(FIRST_PAUSE, MAX_PAUSE);
        let mut compare_at = Instant::now() + COMPARE_EVERY;
        // None until this core leads and has read it.
        let mut place: Option<Place> = None;
        let following = async {
            loop {
                if !self.leads() {
                    place = None;
                    sleep(POLL_INTERVAL).await;
                    continue;
                }
                // A feed that is away does not keep look-ups from being made.
                self.catch_up(&stop);
                let ended = self.follow_once(&stop, &mut backoff, &mut compare_at, &mut place).await;
                self.status.connected(false);
                self.leave(&mut place).await;
                let Err(Ended { why, after_s }) = ended else { continue };
                self.status.failed("the feed", &why);
                let told = Duration::from_secs(after_s.unwrap_or_default()).min(MAX_TOLD);
                sleep(backoff.next(self.shared.ids.as_ref()).max(told)).await;
            }
        };
        stop.run_until_cancelled(following).await;
        // Otherwise the next start would fetch again.
        self.leave(&mut place).await;
    }

    /// Keeps the place after a connection has ended. If another core leads, that one keeps its own.
    async fn leave(&self, place: &mut Option<Place>) {
        if !self.leads() {
            *place = None;
        }
        if let Some(place) = place {
            place.leave().await;
        }
    }

    /// Opens the feed and follows it until it breaks, or this core no longer leads.
    async fn follow_once(
        self: &Arc<Self>,
        stop: &CancellationToken,
        backoff: &mut Backoff,
        compare_at: &mut Instant,
        place: &mut Option<Place>,
    ) -> Result<(), Ended> {
        let place = match place {
            Some(place) => place,
            None => {
                let read = Place::read(self).await.map_err(|error| Ended::because(error.to_string()))?;
                place.insert(read)
            }
        };
        let is_first = place.take_first();
        let feed = match self.client.feed(place.feed.position.as_deref()).await {
            Err(FeedError::PositionLost { .. }) if place.feed.position.is_some() => {
                place.feed.position = None;
                self.client.feed(None).await?
            }
            opened => opened?,
        };
        let begins_now = place.feed.position.is_none();
        if begins_now && !is_first {
            // The open feed brings later changes only. Look-ups that begin now find all earlier ones.
            self.owe(place.feed.known_until - LATE_MS);
        }
        let now_ms = self.now_ms();
        self.status.connected(true);
        self.status.heard(now_ms);
        // Until the next frame with a position this is how far it has come, whichever core came so far.
        self.status.taken(place.feed.position.as_deref(), None);
        place.open(now_ms);
        let mut connection = Connection {
            upstream: Arc::clone(self),
            begins_now,
            place,
            ahead_ms: 0,
            waiting: Waiting::default(),
            received_at: Instant::now(),
        };
        connection.read(feed, stop, backoff, compare_at).await
    }
}

/// Why the feed is no longer followed.
struct Ended {
    why: String,
    /// The pause that the upstream asks for, in seconds.
    after_s: Option<u64>,
}

impl Ended {
    fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), after_s: None }
    }
}

impl From<FeedError> for Ended {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::PositionLost { .. } => Self::because("it has no position to begin at"),
            FeedError::Failed { why, retry_after_s, .. } => Self { why, after_s: retry_after_s },
        }
    }
}

impl Connection<'_> {
    /// Reads the feed while what came before is taken in.
    async fn read(
        &mut self,
        feed: Feed,
        stop: &CancellationToken,
        backoff: &mut Backoff,
        compare_at: &mut Instant,
    ) -> Result<(), Ended> {
        // None once it has ended: the upstream has one connection at most.
        let mut feed = Some(feed);
        let mut parser = Parser::new(MAX_FRAME);
        let mut tick = interval(KEEP_EVERY);
        let mut taking: Option<BoxFuture<'static, Waiting>> = None;
        let mut ended: Option<Result<(), Ended>> = None;
        loop {
            if ended.is_some() {
                feed = None;
            }
            if taking.is_none() {
                if self.waiting.frames > 0 {
                    taking = Some(Box::pin(take(Arc::clone(&self.upstream), std::mem::take(&mut self.waiting))));
                } else if let Some(ended) = ended {
                    return ended;
                }
            }
            let is_open = ended.is_none() && self.waiting.observations.len() < MAX_WAITING;
            tokio::select! {
                piece = next(&mut feed), if is_open => match piece {
                    Some(Ok(bytes)) => self.hear(&mut parser, &bytes),
                    Some(Err(why)) => ended = Some(Err(Ended::because(why))),
                    None => ended = Some(Err(Ended::because("it ended"))),
                },
                taken = wait(&mut taking) => {
                    taking = None;
                    // A feed that opens and breaks at once is not asked without pauses.
                    if !taken.observations.is_empty() {
                        backoff.reset();
                    }
                    self.took(taken);
                }
                _ = tick.tick() => {
                    if is_open && self.received_at.elapsed() > silence() {
                        self.upstream.owe(self.place.feed.known_until - LATE_MS);
                        ended = Some(Err(Ended::because("it was silent for too long")));
                    }
                    self.place.keep_if_due().await;
                    self.upstream.catch_up(stop);
                    if Instant::now() >= *compare_at {
                        *compare_at = Instant::now() + COMPARE_EVERY;
                        let upstream = Arc::clone(&self.upstream);
                        tokio::spawn(async move { upstream.compare().await });
                    }
                    if !self.upstream.leads() {
                        ended.get_or_insert(Ok(()));
                    }
                }
            }
        }
    }

    /// Takes a piece of the feed apart.
    fn hear(&mut self, parser: &mut Parser, bytes: &[u8]) {
        let upstream = Arc::clone(&self.upstream);
        let now_ms = upstream.now_ms();
        self.received_at = Instant::now();
        upstream.status.heard(now_ms);
        self.place.feed.received_at = now_ms;
        for told in parser.read(bytes) {
            let Some(Frame { position, kind, said }) = frames::read(told, now_ms) else { continue };
            upstream.status.frame(kind, now_ms);
            self.place.feed.last_frame_at = Some(now_ms);
            match said {
                Said::Open { now_ms: theirs } => {
                    self.ahead_ms = theirs - now_ms;
                    if self.begins_now {
                        self.waiting.until = theirs;
                    }
                }
                Said::Observations(observations) => {
                    let changed_at = observations.iter().filter_map(|observation| observation.revision).max();
                    let changed_at = changed_at.unwrap_or_default().min(now_ms + self.ahead_ms);
                    self.waiting.until = self.waiting.until.max(changed_at);
                    note_busy(&upstream, &observations);
                    self.waiting.observations.extend(observations);
                }
                Said::Gap { since_ms } => upstream.owe(since_ms),
                Said::Refused(refusal) => {
                    upstream.status.refused(refusal);
                    if kind == "gap" && !matches!(refusal, Refusal::Position) {
                        upstream.owe(self.place.feed.known_until - LATE_MS);
                    }
                }
            }
            self.waiting.position = position.or_else(|| self.waiting.position.take());
            self.waiting.frames += 1;
        }
    }

    /// Moves the place behind what was taken in.
    fn took(&mut self, taken: Waiting) {
        let changed_at = taken.observations.last().and_then(|observation| observation.revision);
        let lag = changed_at.map(|at| (self.upstream.now_ms() + self.ahead_ms - at).max(0));
        self.upstream.status.taken(taken.position.as_deref(), lag);
        self.place.move_to(taken.position, taken.until);
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

/// Takes observations in; tries again and again.
async fn take(upstream: Arc<Upstream>, waiting: Waiting) -> Waiting {
    while let Err(error) = upstream.intake.take(&waiting.observations).await {
        tracing::warn!(%error, "taking in the feed failed, trying again");
        sleep(PAUSE).await;
    }
    waiting
}

async fn next(feed: &mut Option<Feed>) -> Option<Result<Bytes, String>> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

async fn wait(taking: &mut Option<BoxFuture<'static, Waiting>>) -> Waiting {
    match taking {
        Some(taking) => taking.await,
        None => std::future::pending().await,
    }
}

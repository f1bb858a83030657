//! Follows the upstream's feed, from the place that is kept. The place moves only with what was taken in.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use thesis_net::{backoff::Backoff, sse::Parser};
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    client::{Feed, FeedError},
    frames::{self, Frame, MOST_FRAME, Said},
    objects::Refusal,
    status::SILENCE_MS,
    upstream::Upstream,
};
use crate::{
    domain::{
        observation::{Observation, Seen},
        window::MINUTE_MS,
    },
    tables::upstream::{FeedPlace, keep_place, place},
};

/// How often a core looks whether it leads.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often the place is kept, if it moved.
const KEEP_EVERY: Duration = Duration::from_millis(250);
/// Longest time after which it is kept although it did not move, so that others know that the feed is up.
const SIGN_EVERY: Duration = Duration::from_secs(5);
/// How often a sample is compared with the upstream.
const COMPARE_EVERY: Duration = Duration::from_mins(5);
/// The first and the longest pause before the feed is opened again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// The pause before what could not be taken in is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// Most observations that wait to be taken in; then the feed is not read.
const MOST_WAITING: usize = 1_000;
/// Most tokens whose theses are counted.
const MOST_BUSY: usize = 10_000;
/// Changes of the last time before a break that are looked up with those of the break, in milliseconds: the feed may tell
/// them late.
const LATE_MS: i64 = MINUTE_MS;

/// Frames that were read and are not taken in.
#[derive(Default)]
struct Waiting {
    observations: Vec<Observation>,
    position: Option<String>,
    /// The upstream's time when the last of them was read.
    until: i64,
    frames: usize,
}

/// A connection to the feed.
struct Connection {
    upstream: Arc<Upstream>,
    place: FeedPlace,
    /// The upstream's clock less this one's, in milliseconds.
    ahead_ms: i64,
    waiting: Waiting,
    heard_at: Instant,
    kept_at: Option<Instant>,
    moved: bool,
}

impl Upstream {
    /// Follows the feed while this core leads, until stopped.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut compare_at = Instant::now() + COMPARE_EVERY;
        let following = async {
            loop {
                if !self.leads() {
                    sleep(LOOK_EVERY).await;
                    continue;
                }
                let ended = self.follow_once(&stop, &mut backoff, &mut compare_at).await;
                self.status.connected(false);
                let Err(why) = ended else { continue };
                self.status.failed("the feed", &why);
                sleep(backoff.next(self.shared.ids.as_ref())).await;
            }
        };
        stop.run_until_cancelled(following).await;
    }

    /// Opens the feed and follows it until it breaks, or this core no longer leads.
    async fn follow_once(
        self: &Arc<Self>,
        stop: &CancellationToken,
        backoff: &mut Backoff,
        compare_at: &mut Instant,
    ) -> Result<(), String> {
        let kept = place(&self.shared.backend).await.map_err(|error| error.to_string())?;
        let is_first = kept.is_none();
        let mut kept = kept.unwrap_or_default();
        if let Some(since_ms) = kept.owed_since {
            self.owe(since_ms);
        }
        if kept.position.is_none() && !is_first {
            // The first connection broke before it told a position.
            self.owe(kept.heard_at - LATE_MS);
        }
        let mut feed = match self.client.feed(kept.position.as_deref()).await {
            Ok(feed) => feed,
            Err(FeedError::PositionLost { .. }) if kept.position.is_some() => {
                self.owe(kept.known_until - LATE_MS);
                kept.position = None;
                self.client.feed(None).await.map_err(told)?
            }
            Err(error) => return Err(told(error)),
        };
        self.status.connected(true);
        self.status.heard(self.now_ms());
        let mut connection = Connection {
            upstream: Arc::clone(self),
            place: kept,
            ahead_ms: 0,
            waiting: Waiting::default(),
            heard_at: Instant::now(),
            kept_at: None,
            moved: false,
        };
        if is_first && !self.settings.backfill.is_zero() {
            let back = i64::try_from(self.settings.backfill.as_millis()).unwrap_or(i64::MAX);
            self.owe(self.now_ms().saturating_sub(back));
        }
        let ended = connection.read(&mut feed, stop, backoff, compare_at).await;
        connection.keep().await;
        ended
    }
}

fn told(error: FeedError) -> String {
    match error {
        FeedError::PositionLost { .. } => "it has no position to begin at".to_owned(),
        FeedError::Failed { why, .. } => why,
    }
}

impl Connection {
    /// Reads the feed while what came before is taken in.
    async fn read(
        &mut self,
        feed: &mut Feed,
        stop: &CancellationToken,
        backoff: &mut Backoff,
        compare_at: &mut Instant,
    ) -> Result<(), String> {
        let mut parser = Parser::new(MOST_FRAME);
        let mut tick = interval(KEEP_EVERY);
        let mut taking: Option<BoxFuture<'static, Waiting>> = None;
        let mut ended: Option<Result<(), String>> = None;
        loop {
            if taking.is_none() {
                if self.waiting.frames > 0 {
                    taking = Some(Box::pin(take(Arc::clone(&self.upstream), std::mem::take(&mut self.waiting))));
                } else if let Some(ended) = ended {
                    return ended;
                }
            }
            let is_open = ended.is_none() && self.waiting.observations.len() < MOST_WAITING;
            tokio::select! {
                piece = feed.next(), if is_open => match piece {
                    Some(Ok(bytes)) => {
                        backoff.reset();
                        self.hear(&mut parser, &bytes);
                    }
                    Some(Err(why)) => ended = Some(Err(why)),
                    None => ended = Some(Err("it ended".to_owned())),
                },
                taken = wait(&mut taking) => {
                    taking = None;
                    self.took(taken);
                }
                _ = tick.tick() => {
                    if is_open && self.heard_at.elapsed() > silence() {
                        self.upstream.owe(self.place.known_until - LATE_MS);
                        ended = Some(Err("it was silent for too long".to_owned()));
                    }
                    if taking.is_none() && self.waiting.frames == 0 {
                        self.is_idle();
                    }
                    if self.moved || self.kept_at.is_none_or(|at| at.elapsed() > SIGN_EVERY) {
                        self.keep().await;
                    }
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
        self.heard_at = Instant::now();
        upstream.status.heard(now_ms);
        self.place.heard_at = now_ms;
        for told in parser.read(bytes) {
            let Some(Frame { position, kind, said }) = frames::read(told, now_ms) else { continue };
            upstream.status.frame(kind, now_ms);
            self.place.last_frame_at = Some(now_ms);
            match said {
                Said::Open { now_ms: theirs } => self.ahead_ms = theirs - now_ms,
                Said::Observations(observations) => {
                    note_busy(&upstream, &observations);
                    self.waiting.observations.extend(observations);
                }
                Said::Gap { since_ms } => upstream.owe(since_ms),
                Said::Refused(refusal) => {
                    upstream.status.refused(refusal);
                    if kind == "gap" && !matches!(refusal, Refusal::Position) {
                        upstream.owe(self.place.known_until - LATE_MS);
                    }
                }
            }
            self.waiting.position = position.or_else(|| self.waiting.position.take());
            self.waiting.until = now_ms + self.ahead_ms;
            self.waiting.frames += 1;
        }
    }

    /// Moves the place behind what was taken in.
    fn took(&mut self, taken: Waiting) {
        let changed_at = taken.observations.last().and_then(|observation| observation.revision);
        let lag = changed_at.map(|at| (self.upstream.now_ms() + self.ahead_ms - at).max(0));
        self.upstream.status.taken(taken.position.as_deref(), lag);
        self.place.position = taken.position.or_else(|| self.place.position.take());
        self.place.known_until = self.place.known_until.max(taken.until);
        self.moved = true;
    }

    /// All that came is taken in.
    fn is_idle(&mut self) {
        if self.place.heard_at > 0 {
            self.place.known_until = self.place.known_until.max(self.place.heard_at + self.ahead_ms);
        }
    }

    /// Keeps the place, and what is owed with it.
    async fn keep(&mut self) {
        let owed = self.upstream.owed.lock().since();
        let place = FeedPlace { owed_since: owed, ..self.place.clone() };
        match keep_place(&self.upstream.shared.backend, &place, self.upstream.now_ms()).await {
            Ok(()) => {
                (self.moved, self.kept_at, self.place) = (false, Some(Instant::now()), place);
            }
            Err(error) => tracing::debug!(%error, "keeping the place in the feed failed, trying again"),
        }
    }
}

fn silence() -> Duration {
    Duration::from_millis(SILENCE_MS.unsigned_abs())
}

fn note_busy(upstream: &Upstream, observations: &[Observation]) {
    let mut busy = upstream.busy.lock();
    for observation in observations {
        let Seen::Thesis(seen) = &observation.seen else { continue };
        let of = (seen.token.chain.clone(), seen.token.address.clone());
        if busy.len() < MOST_BUSY || busy.contains_key(&of) {
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

async fn wait(taking: &mut Option<BoxFuture<'static, Waiting>>) -> Waiting {
    match taking {
        Some(taking) => taking.await,
        None => std::future::pending().await,
    }
}

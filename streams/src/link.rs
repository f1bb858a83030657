//! The streams that are open at one core.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use futures::StreamExt as _;
use parking_lot::Mutex;
use thesis_net::{
    clock::SharedIdSource,
    services::{Streams, Trusted},
};
use thesis_proto::v1;
use tokio::{
    sync::{Notify, watch},
    time::{Interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_types::StatusExt as _;

use crate::{
    metrics::{ENDED, OPEN, OPENED},
    signal::{EndReason, Signal},
    subscription::Subscription,
};

/// The first and the maximum pause before a broken session is restarted.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Time in which closed streams gather, so that one call reports them together.
const BATCH_WAIT: Duration = Duration::from_millis(5);
/// Pause before streams that could not be closed are reported again.
const CLOSE_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Number of steps in which streams end when this process stops, and the time between them.
const DRAINING: (usize, Duration) = (16, Duration::from_millis(125));

/// The connection to one core, and the streams that are open there.
pub(crate) struct Link {
    core: Arc<Streams>,
    ids: SharedIdSource,
    state: Mutex<State>,
    /// True while streams can be opened.
    up: watch::Sender<bool>,
    closes: Notify,
}

#[derive(Default)]
struct State {
    /// The session's id, while core knows it.
    session: String,
    streams: HashMap<u64, Arc<Signal>>,
    last: u64,
    /// Streams that core does not yet know to be closed.
    closed: Vec<u64>,
}

impl Link {
    pub(crate) fn new(core: Arc<Streams>, ids: SharedIdSource) -> Arc<Self> {
        Arc::new(Self { core, ids, state: Mutex::default(), up: watch::Sender::new(false), closes: Notify::new() })
    }

    /// Watches whether streams can be opened.
    pub(crate) fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Keeps a session at the core until `shutdown`, then ends its streams.
    pub(crate) async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut pause = RETRY_PAUSES.0;
        while !shutdown.is_cancelled() {
            let mut session = pin!(self.session());
            let (ended, was_up) = tokio::select! {
                ended = &mut session => ended,
                () = shutdown.cancelled() => {
                    // The session still receives core's ends until all streams have ended.
                    tokio::select! {
                        () = self.drain() => {}
                        _ = session => {}
                    }
                    break;
                }
            };
            tracing::warn!(status = %ended, "the session of streams broke; its streams end");
            self.forget();
            if was_up {
                pause = RETRY_PAUSES.0;
            }
            if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
            pause = (pause * 2).min(RETRY_PAUSES.1);
        }
        self.forget();
    }

    /// Ends the streams in steps, so that their clients do not come back all at once.
    async fn drain(&self) {
        self.up.send_replace(false);
        let leaving: Vec<Arc<Signal>> = self.state.lock().streams.values().cloned().collect();
        for some in leaving.chunks(leaving.len().div_ceil(DRAINING.0).max(64)) {
            some.iter().for_each(|signal| signal.end(EndReason::Reconnect));
            sleep(DRAINING.1).await;
        }
    }

    /// Ends all streams.
    fn forget(&self) {
        self.up.send_replace(false);
        let mut state = self.state.lock();
        state.session.clear();
        state.closed.clear();
        let streams = std::mem::take(&mut state.streams);
        drop(state);
        streams.values().for_each(|signal| signal.end(EndReason::Reconnect));
    }

    /// Runs one session until it breaks; returns true if it had begun.
    async fn session(&self) -> (Status, bool) {
        let mut random = [0; 16];
        self.ids.fill(&mut random);
        let session = hex::encode(random);
        let mut ends = match self.core.endings(Trusted::request(v1::EndingsRequest { session: session.clone() })).await
        {
            Ok(ends) => ends.into_inner(),
            Err(status) => return (status, false),
        };
        let receiving = async {
            while let Some(message) = ends.next().await {
                match message {
                    Ok(message) => self.apply_ends(&session, message),
                    Err(status) => return status,
                }
            }
            Status::unavailable("the core ended the session")
        };
        tokio::select! {
            status = receiving => (status, *self.up.borrow()),
            () = self.report_closed() => unreachable!("it never ends"),
        }
    }

    fn apply_ends(&self, session: &str, message: v1::EndingsResponse) {
        let mut state = self.state.lock();
        let begins = state.session.is_empty();
        if begins {
            session.clone_into(&mut state.session);
        }
        for end in message.ends {
            // Core has already closed these streams.
            if let Some(signal) = state.streams.remove(&end.stream) {
                signal.end(end.reason().into());
            }
        }
        drop(state);
        if begins {
            self.up.send_replace(true);
        }
    }

    /// Reports closed streams to core, many at once.
    async fn report_closed(&self) {
        loop {
            self.closes.notified().await;
            sleep(BATCH_WAIT).await;
            loop {
                let (session, streams) = {
                    let mut state = self.state.lock();
                    (state.session.clone(), std::mem::take(&mut state.closed))
                };
                if streams.is_empty() {
                    break;
                }
                let request = v1::CloseRequest { session, streams: streams.clone() };
                if self.core.close(Trusted::request(request)).await.is_err() {
                    self.state.lock().closed.extend(streams);
                    sleep(CLOSE_RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Opens a stream. If the caller cancels the call, the stream is closed again.
    pub(crate) async fn open(
        self: &Arc<Self>,
        mut request: Request<v1::OpenRequest>,
    ) -> Result<(Response<v1::OpenResponse>, OpenStream, Option<ReplaySlot>), Status> {
        let signal = Arc::new(Signal::default());
        let stream = {
            let mut state = self.state.lock();
            if state.session.is_empty() {
                return Err(Status::unavailable("no core is there for streams"));
            }
            state.last += 1;
            let id = state.last;
            state.streams.insert(id, Arc::clone(&signal));
            OpenStream {
                link: Arc::clone(self),
                session: state.session.clone(),
                id,
                signal,
                transport: "",
                why_ended: OnceLock::new(),
            }
        };
        let message = request.get_mut();
        (message.session, message.stream) = (stream.session.clone(), stream.id);
        let replay = self.name_replay(message);
        match self.core.open(request).await {
            Ok(answer) => Ok((answer, stream, replay)),
            Err(status) => {
                if status.get_error_details().error_info().is_some() {
                    // Core itself refused the stream, and has nothing to close.
                    self.state.lock().streams.remove(&stream.id);
                }
                Err(status)
            }
        }
    }

    /// Gives the replay of a request an id. With it, the slot can be released even if the caller abandons the request.
    fn name_replay(self: &Arc<Self>, message: &mut v1::OpenRequest) -> Option<ReplaySlot> {
        message.from.as_ref()?;
        let mut state = self.state.lock();
        state.last += 1;
        message.replay = state.last;
        Some(ReplaySlot { link: Arc::clone(self), session: message.session.clone(), id: message.replay })
    }

    fn close_replay(&self, session: &str, id: u64) {
        let mut state = self.state.lock();
        if state.session == session {
            state.closed.push(id);
            self.closes.notify_one();
        }
    }

    fn close(&self, session: &str, id: u64) {
        let mut state = self.state.lock();
        // A later session of core does not know the stream.
        if state.session == session && state.streams.remove(&id).is_some() {
            state.closed.push(id);
            self.closes.notify_one();
        }
    }
}

/// The slot of a replay at core. Dropping it releases the slot.
pub(crate) struct ReplaySlot {
    link: Arc<Link>,
    session: String,
    id: u64,
}

impl Drop for ReplaySlot {
    fn drop(&mut self) {
        self.link.close_replay(&self.session, self.id);
    }
}

/// Interval of a stream's heartbeats.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// The next step of a stream with one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// There may be events to read.
    More,
    /// A heartbeat is due.
    Heartbeat,
    /// The stream ends.
    End(EndReason),
}

/// An open stream. Its drop closes it.
pub struct OpenStream {
    link: Arc<Link>,
    session: String,
    id: u64,
    pub(crate) signal: Arc<Signal>,
    /// The client's protocol; empty until the stream is open.
    pub(crate) transport: &'static str,
    /// This process's reason to end the stream; core's reasons are in `signal`.
    why_ended: OnceLock<&'static str>,
}

impl OpenStream {
    /// Counts the stream as open.
    pub(crate) fn counted(mut self, transport: &'static str) -> Self {
        self.transport = transport;
        OPENED.at(transport).increment(1);
        OPEN.at(transport).increment(1.0);
        self
    }

    /// Notes the reason why this process ends the stream: `too_slow`, `no_pong`, `protocol` or
    /// `complete`.
    pub fn ends_for(&self, reason: &'static str) {
        let _first = self.why_ended.set(reason);
    }

    /// The reason why the stream ends, once it must. Check before each write.
    pub fn ended(&self) -> Option<EndReason> {
        self.signal.ended()
    }

    /// Wakes this task when the stream ends, or one of its subscriptions may have events. Check for either only after
    /// this.
    pub fn register(&self, context: &Context<'_>) {
        self.signal.register(context.waker());
    }

    /// The next step of a stream with one subscription. A cancelled wait loses nothing.
    pub fn poll_step(
        &self,
        subscription: &mut Subscription,
        heartbeats: &mut Interval,
        context: &mut Context<'_>,
    ) -> Poll<StreamStep> {
        self.register(context);
        if let Some(end) = self.ended() {
            return Poll::Ready(StreamStep::End(end));
        }
        match subscription.poll_more(context) {
            Poll::Ready(Ok(())) => return Poll::Ready(StreamStep::More),
            Poll::Ready(Err(_)) => return Poll::Ready(StreamStep::End(EndReason::Reconnect)),
            Poll::Pending => {}
        }
        heartbeats.poll_tick(context).map(|_| StreamStep::Heartbeat)
    }

    /// Adds a subscription.
    pub(crate) async fn subscribe(
        &self,
        mut request: Request<v1::OpenRequest>,
    ) -> Result<(Response<v1::OpenResponse>, Option<ReplaySlot>), Status> {
        let message = request.get_mut();
        (message.session, message.stream) = (self.session.clone(), self.id);
        message.set_kind(v1::OpenKind::Subscription);
        let replay = self.link.name_replay(message);
        Ok((self.link.core.open(request).await?, replay))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.link.close(&self.session, self.id);
        if self.transport.is_empty() {
            return;
        }
        let why = match self.ended() {
            Some(EndReason::Revoked) => "revoked",
            Some(EndReason::Reconnect) => "reconnect",
            Some(EndReason::Replaced) => "replaced",
            None => self.why_ended.get().copied().unwrap_or("client"),
        };
        OPEN.at(self.transport).decrement(1.0);
        ENDED.of(&[self.transport, why]).increment(1);
    }
}

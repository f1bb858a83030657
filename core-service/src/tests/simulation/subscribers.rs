//! Clients that follow events, and come back with the last cursor whenever a stream ends.

mod web;

use std::{mem::replace, sync::Arc, time::Duration};

use http::StatusCode;
use thesis_net::channel::CoreChannel;
use thesis_proto::{
    time::from_millis,
    v1::{self, event_service_client::EventServiceClient, subscribe_response::Message},
};
use tokio::time::sleep;
use tonic::Code;

use super::{
    clients::with_key,
    cluster::{Cluster, NodeClock},
    history::Fact,
    network::channel,
};
use crate::{
    domain::window::HOUR_MS,
    tests::{
        faults::Dice,
        harness::{NOON, TEST_KEY},
    },
};

/// Pause until a client opens a stream again, or looks for its key.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Pause after a refusal: too many of them would shut the client's address out.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Maximum milliseconds for which a slow client reads nothing.
const MAX_SLOW_MS: usize = 400;
/// One in this number of messages makes an unsteady client disconnect.
const DISCONNECTS: usize = 6;

/// How a client follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follower {
    Steady,
    Slow,
    /// Disconnects again and again.
    Unsteady,
    /// Its key is revoked during the run.
    Revoked,
    /// Follows Server-Sent Events of an edge.
    EventSource,
    WebSocket,
    /// Follows Server-Sent Events, and disconnects again and again. Its key is that of `Revoked`.
    RevokedEventSource,
    /// Replays the past, then follows live events, and disconnects again and again.
    Replaying,
}

impl Follower {
    pub(super) const ALL: [Self; 8] = [
        Self::Steady,
        Self::Slow,
        Self::Unsteady,
        Self::Revoked,
        Self::EventSource,
        Self::WebSocket,
        Self::RevokedEventSource,
        Self::Replaying,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Slow => "slow",
            Self::Unsteady => "unsteady",
            Self::Revoked => "revoked",
            Self::EventSource => "event-source",
            Self::WebSocket => "web-socket",
            Self::RevokedEventSource => "revoked-event-source",
            Self::Replaying => "replaying",
        }
    }

    /// True if its key is revoked during the run.
    pub(super) const fn is_revoked(self) -> bool {
        matches!(self, Self::Revoked | Self::RevokedEventSource)
    }
}

/// What a client has of its stream.
struct Progress<'a> {
    cluster: &'a Cluster,
    follower: Follower,
    dice: Dice,
    cursor: Option<String>,
    /// True once the present connection has sent a message.
    is_open: bool,
}

impl Progress<'_> {
    fn note(&self, fact: Fact) {
        self.cluster.history.note(self.follower.name(), fact);
    }

    /// Notes a position of the stream, and before it that the connection is open.
    fn reach(&mut self, cursor: Option<String>) {
        if !replace(&mut self.is_open, true) {
            self.note(Fact::Opened);
        }
        if cursor.is_some() {
            self.cursor = cursor;
        }
    }

    fn event(&mut self, id: &str, cursor: Option<String>) {
        self.reach(cursor);
        self.note(Fact::Event(id.to_owned()));
    }

    fn gap(&mut self, skipped: Option<i64>, cursor: Option<String>) {
        self.reach(cursor);
        self.note(Fact::Gap(skipped));
    }

    /// Decides after a message whether the client disconnects.
    fn disconnects(&mut self) -> bool {
        let is_unsteady =
            matches!(self.follower, Follower::Unsteady | Follower::RevokedEventSource | Follower::Replaying);
        is_unsteady && self.dice.roll(DISCONNECTS) == 0
    }

    /// The key of the client, once there is one.
    fn key(&self) -> Option<String> {
        if !self.follower.is_revoked() {
            return Some(TEST_KEY.to_owned());
        }
        self.cluster.revocable.lock().as_ref().map(|(_, key)| key.clone())
    }
}

/// Follows events until the run ends.
pub(super) async fn follow(cluster: Arc<Cluster>, follower: Follower) {
    let stop = cluster.stop.clone();
    stop.run_until_cancelled(follow_on(&cluster, follower)).await;
}

async fn follow_on(cluster: &Cluster, follower: Follower) {
    let channel = channel(&cluster.urls(), Arc::new(NodeClock::default()));
    let dice = Dice(cluster.seed.rotate_left(follower as u32 + 20));
    let mut progress = Progress { cluster, follower, dice, cursor: None, is_open: false };
    loop {
        if let Some(key) = progress.key() {
            progress.is_open = false;
            let end = match follower {
                Follower::EventSource | Follower::RevokedEventSource => web::read_events(&mut progress, &key).await,
                Follower::WebSocket => web::read_socket(&mut progress, &key).await,
                _ => read_grpc(&mut progress, &key, channel.clone()).await,
            };
            progress.note(Fact::Ended(end.clone()));
            if [Code::Unauthenticated.to_string(), StatusCode::UNAUTHORIZED.to_string()].contains(&end) {
                sleep(REFUSED_PAUSE).await;
            }
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Follows over gRPC until the stream ends; returns the reason.
async fn read_grpc(progress: &mut Progress<'_>, key: &str, channel: CoreChannel) -> String {
    let cursor = progress.cursor.clone();
    let from = (progress.follower == Follower::Replaying).then(|| from_millis(NOON - HOUR_MS));
    let request = v1::SubscribeRequest { cursor, from, ..v1::SubscribeRequest::default() };
    let mut stream = match EventServiceClient::new(channel).subscribe(with_key(request, key)).await {
        Ok(stream) => stream.into_inner(),
        Err(status) => return status.code().to_string(),
    };
    loop {
        let message = match stream.message().await {
            Ok(Some(v1::SubscribeResponse { message: Some(message) })) => message,
            Ok(_) => return "closed".to_owned(),
            Err(status) => return status.code().to_string(),
        };
        match message {
            Message::Heartbeat(heartbeat) => progress.reach(Some(heartbeat.cursor)),
            Message::Event(event) => progress.event(&event.event.unwrap_or_default().id, Some(event.cursor)),
            Message::Gap(gap) => progress.gap(gap.skipped, Some(gap.last_cursor)),
        }
        if progress.follower == Follower::Slow {
            sleep(Duration::from_millis(progress.dice.roll(MAX_SLOW_MS) as u64)).await;
        }
        if progress.disconnects() {
            return "disconnected".to_owned();
        }
    }
}

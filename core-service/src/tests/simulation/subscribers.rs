//! Clients that follow events, and come back with the last cursor whenever a stream ends.

use std::{sync::Arc, time::Duration};

use thesis_proto::v1::{self, event_service_client::EventServiceClient, subscribe_response::Message};
use tokio::time::sleep;
use tonic::{Code, Streaming};

use super::{
    clients::with_key,
    cluster::{Cluster, NodeClock},
    history::Fact,
    network::channel,
};
use crate::tests::{faults::Dice, harness::TEST_KEY};

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
}

impl Follower {
    pub(super) const ALL: [Self; 4] = [Self::Steady, Self::Slow, Self::Unsteady, Self::Revoked];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Slow => "slow",
            Self::Unsteady => "unsteady",
            Self::Revoked => "revoked",
        }
    }
}

/// Follows events until the run ends.
pub(super) async fn follow(cluster: Arc<Cluster>, follower: Follower) {
    let stop = cluster.stop.clone();
    stop.run_until_cancelled(follow_on(&cluster, follower)).await;
}

async fn follow_on(cluster: &Cluster, follower: Follower) {
    let events = EventServiceClient::new(channel(&cluster.urls(), Arc::new(NodeClock::default())));
    let mut dice = Dice(cluster.seed.rotate_left(follower as u32 + 20));
    let mut cursor = None;
    loop {
        let revocable = cluster.revocable.lock().clone();
        let key = match (follower, revocable) {
            (Follower::Revoked, Some((_, key))) => Some(key),
            (Follower::Revoked, None) => None,
            _ => Some(TEST_KEY.to_owned()),
        };
        if let Some(key) = key {
            let request = v1::SubscribeRequest { cursor: cursor.clone(), ..v1::SubscribeRequest::default() };
            let end = match events.clone().subscribe(with_key(request, &key)).await {
                Ok(stream) => read(cluster, follower, stream.into_inner(), &mut cursor, &mut dice).await,
                Err(status) => status.code().to_string(),
            };
            if end == Code::Unauthenticated.to_string() {
                sleep(REFUSED_PAUSE).await;
            }
            cluster.history.note(follower.name(), Fact::Ended(end));
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Reads a stream; returns the reason of its end.
async fn read(
    cluster: &Cluster,
    follower: Follower,
    mut stream: Streaming<v1::SubscribeResponse>,
    cursor: &mut Option<String>,
    dice: &mut Dice,
) -> String {
    let note = |fact| cluster.history.note(follower.name(), fact);
    let mut is_open = false;
    loop {
        let message = match stream.message().await {
            Ok(Some(v1::SubscribeResponse { message: Some(message) })) => message,
            Ok(_) => return "closed".to_owned(),
            Err(status) => return status.code().to_string(),
        };
        if !std::mem::replace(&mut is_open, true) {
            note(Fact::Opened);
        }
        match message {
            Message::Heartbeat(heartbeat) => *cursor = Some(heartbeat.cursor),
            Message::Event(event) => {
                *cursor = Some(event.cursor);
                note(Fact::Event(event.event.unwrap_or_default().id));
            }
            Message::Gap(gap) => {
                *cursor = Some(gap.last_cursor);
                note(Fact::Gap(gap.skipped));
            }
        }
        match follower {
            Follower::Slow => sleep(Duration::from_millis(dice.roll(MAX_SLOW_MS) as u64)).await,
            Follower::Unsteady if dice.roll(DISCONNECTS) == 0 => return "disconnected".to_owned(),
            _ => {}
        }
    }
}

//! Ends the streams of people whose session has ended.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use thesis_proto::error::ErrorCode;
use tokio::time::{MissedTickBehavior, interval};

use crate::{accounts::sessions, domain::member_key::MemberKey, service::Core};

/// Interval between two checks of the sessions with open streams.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Sessions that are read concurrently.
const MAX_CONCURRENT_READS: usize = 16;

/// Checks the sessions of people with open streams. Never returns.
pub async fn watch(core: Arc<Core>) {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        stream::iter(core.open_streams.keys())
            .for_each_concurrent(MAX_CONCURRENT_READS, |key_id| end_if_signed_out(&core, key_id))
            .await;
    }
}

/// Ends the streams of a person whose session has ended.
async fn end_if_signed_out(core: &Core, key_id: Arc<str>) {
    let Some(key) = MemberKey::parse(&key_id) else { return };
    match sessions::demand_open(&core.shared, &key.user_id, &key.session_id).await {
        Ok(()) => {}
        Err(error) if error.api.code == ErrorCode::SignInRequired => core.open_streams.revoke(&key_id),
        Err(error) => tracing::debug!(%error, "looking for ended sessions failed"),
    }
}

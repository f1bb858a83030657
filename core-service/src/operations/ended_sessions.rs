//! Ends the streams of people whose session has ended.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use thesis_proto::error::ErrorCode;
use tokio::time::{MissedTickBehavior, interval};

use super::Core;
use crate::{accounts::sessions, domain::member_key::MemberKey};

/// How often the sessions of people with open streams are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Most sessions that are read at once.
const PARALLEL: usize = 16;

/// Looks at the sessions of people with open streams; never ends.
pub async fn watch(core: Arc<Core>) {
    let mut looks = interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        stream::iter(core.open_streams.keys()).for_each_concurrent(PARALLEL, |key_id| look(&core, key_id)).await;
    }
}

/// Ends the streams of a person if their session has ended.
async fn look(core: &Core, key_id: Arc<str>) {
    let Some(key) = MemberKey::parse(&key_id) else { return };
    match sessions::demand_open(&core.shared, &key.user_id, &key.session_id).await {
        Ok(()) => {}
        Err(error) if error.api.code == ErrorCode::SignInRequired => core.open_streams.revoke(&key_id),
        Err(error) => tracing::debug!(%error, "looking for ended sessions failed"),
    }
}

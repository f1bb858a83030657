//! Sends many finished deliveries of a webhook again, newest first and 50 a second.
//!
//! A replay goes on in steps. Each examines some deliveries, creates the replays of those that are wanted, and stores
//! how far it has come, under the condition that no other core did. The ids of what a step creates derive from the
//! replay, from the step's time, which was stored before, and from the originals. So a core that repeats the step of a
//! dead one creates the same deliveries, and nothing is sent twice for that. The core that got the request takes the
//! steps. When none was stored for half a minute, the core that hands out the webhook's attempts goes on: on a cluster
//! within six minutes, and after a start of the embedded store at once.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::replay_delivery::{create_deliveries, replay_of};
use crate::{
    delivery::rule::DeliveryRule,
    domain::{delivery::Delivery, webhook_replay::WebhookReplay},
    error::Result,
    service::Core,
    store::Consistency,
    tables::{
        queue::SHARDS,
        webhook_replays::{self as rows, StoredReplay},
    },
};

/// Pause after a step for each delivery that it created: 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// Minimum pause between two steps.
const MIN_PAUSE: Duration = Duration::from_millis(200);
/// Pause after a step that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Deliveries of one read.
const PAGE: usize = 50;
/// Number of replays with which a step is full. The page that fills it may bring up to [`PAGE`] more.
const STEP_REPLAYS: usize = 25;
/// Maximum number of deliveries that a step examines.
const MAX_EXAMINED: i64 = 2_000;
/// Interval between two checks for replays that nobody takes on: of shards that are new here or had one.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between two checks of the other shards.
const RECHECK_INTERVAL: Duration = Duration::from_mins(5);
/// Time without a step after which another core goes on, in milliseconds.
const ABANDONED_MS: i64 = 30_000;

/// Goes on with the replays of this core's webhooks that nobody takes on. Never returns.
pub async fn watch(core: Arc<Core>) {
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut adopter = Adopter::default();
    // Before its start nobody takes on replays of a store with one process.
    let mut abandoned_ms = if core.shared.backend.is_exclusive() { 0 } else { ABANDONED_MS };
    loop {
        ticks.tick().await;
        if let Err(error) = adopter.adopt(&core, abandoned_ms).await {
            tracing::warn!(%error, "looking for unfinished replays of webhooks failed, trying again");
        }
        abandoned_ms = ABANDONED_MS;
    }
}

#[derive(Default)]
struct Adopter {
    /// The time of the last check of each shard that had no unfinished replay then.
    checked: HashMap<i64, Instant>,
    /// The adopted replays that this core takes steps of, by webhook. One whose steps fail is not adopted again.
    running: HashMap<String, JoinHandle<()>>,
}

impl Adopter {
    /// Looks for unfinished replays in the shards of this core that were not checked lately, and goes on with those
    /// that had no step for some time.
    async fn adopt(&mut self, core: &Arc<Core>, abandoned_ms: i64) -> Result<()> {
        let now_ms = core.shared.clock.now_ms();
        self.checked.retain(|shard, at| core.dispatcher.serves(*shard) && at.elapsed() < RECHECK_INTERVAL);
        self.running.retain(|_, replay| !replay.is_finished());
        let is_due = |shard: &i64| !self.checked.contains_key(shard) && core.dispatcher.serves(*shard);
        let shards: Vec<i64> = (0..SHARDS).filter(is_due).collect();
        if shards.is_empty() {
            return Ok(());
        }
        let found = rows::unfinished(&core.shared.backend, &shards).await?;
        for (shard, unfinished) in shards.into_iter().zip(found) {
            if unfinished.is_empty() {
                self.checked.insert(shard, Instant::now());
            }
            for (webhook, stored) in unfinished {
                if now_ms - stored.1.step_at >= abandoned_ms && !self.running.contains_key(&webhook) {
                    self.running.insert(webhook.clone(), spawn(core, webhook, stored));
                }
            }
        }
        Ok(())
    }
}

/// Takes the steps of a replay until it is done, another core goes on with it, or this core stops.
pub(super) fn spawn(core: &Arc<Core>, webhook: String, stored: StoredReplay) -> JoinHandle<()> {
    let running = Arc::clone(core);
    core.tasks.spawn(async move {
        let stop = running.stop.clone();
        stop.run_until_cancelled(run(&running, &webhook, stored)).await;
    })
}

async fn run(core: &Core, webhook: &str, (mut version, mut replay): StoredReplay) {
    while replay.finished_at.is_none() {
        match step(core, webhook, version, &replay).await {
            Ok(Some((next_version, next))) => {
                let created = u32::try_from(next.replayed - replay.replayed).unwrap_or(u32::MAX);
                (version, replay) = (next_version, next);
                sleep(PACE.saturating_mul(created).max(MIN_PAUSE)).await;
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(webhook, %error, "a step of a webhook's replay failed, trying again");
                sleep(RETRY_PAUSE).await;
                // The write of the step may have succeeded.
                match rows::read(&core.shared.backend, webhook, Consistency::Serial).await {
                    Ok(Some((at, Some(stored)))) if stored.id == replay.id => (version, replay) = (at, stored),
                    Ok(_) => return,
                    Err(_) => {}
                }
            }
        }
    }
}

/// Takes one step. Returns the stored replay; none if another core has stored it meanwhile.
async fn step(core: &Core, webhook: &str, version: i64, replay: &WebhookReplay) -> Result<Option<StoredReplay>> {
    let mut next = replay.clone();
    let mut wanted = Vec::new();
    let mut is_done = false;
    while !is_done && wanted.len() < STEP_REPLAYS && next.examined - replay.examined < MAX_EXAMINED {
        is_done = examine(core, webhook, &mut next, &mut wanted).await?;
    }
    let replays = wanted.iter().map(|original| replay_of(original, replay.step_at, &replay.id));
    let replays: Vec<Delivery> = replays.collect();
    next.replayed += i64::try_from(replays.len()).unwrap_or(i64::MAX);
    if !replays.is_empty() {
        create_deliveries(core, replays).await?;
    }
    let now_ms = core.shared.clock.now_ms();
    next.step_at = now_ms.max(replay.step_at);
    next.finished_at = is_done.then_some(now_ms);
    let stored = rows::write(&core.shared.backend, webhook, Some(version), &next).await?;
    Ok(stored.map(|version| (version, next)))
}

/// Examines a page of deliveries and adds the wanted ones. Returns true after the last page.
async fn examine(core: &Core, webhook: &str, replay: &mut WebhookReplay, wanted: &mut Vec<Delivery>) -> Result<bool> {
    let now_ms = core.shared.clock.now_ms();
    let after = (replay.after_at, replay.after_id.clone());
    let page = core.shared.deliveries.page(webhook, Some(&after), now_ms, PAGE).await?;
    let rule = {
        let state = core.shared.control.state();
        state.webhook(webhook).map(|webhook| DeliveryRule::of(&state, webhook, now_ms))
    };
    // Nothing is sent to a webhook that was deleted, or whose live access was withdrawn.
    let Some(rule) = rule.filter(|rule| rule.sends_any()) else { return Ok(true) };
    let is_last = page.len() < PAGE;
    for ((at, id), delivery) in page {
        if at < replay.since {
            return Ok(true);
        }
        (replay.after_at, replay.after_id) = (at, id);
        replay.examined += 1;
        let Some(delivery) = delivery.map(|delivery| rule.counted(delivery)) else { continue };
        if delivery.status == replay.status && !delivery.is_requested() {
            wanted.push(delivery);
        }
    }
    Ok(is_last)
}

#[cfg(test)]
mod tests;

//! Measures the gauges of a core at an interval.

use std::{collections::HashMap, mem::take, sync::Arc, time::Duration};

use thesis_net::metric::{FollowerLag, seconds, value};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{
    domain::dataset::Dataset,
    error::Result,
    log::datasets::DatasetProgress,
    metrics::{
        CONTROL_AGE, CONTROL_HEAD, FAN_OUT_LAG, FAN_OUT_SECONDS, FOLLOWED, HEAD, MEMBERS, OLDEST, OUT, PROJECTED,
        PROJECTION_LAG, PROJECTION_SECONDS, READY, SEARCH_LAG, SEARCH_SECONDS, SHARDS, WORKERS, WRITTEN,
    },
    service::Core,
    store::Consistency,
};

/// Interval between two measurements.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Number of measurements between two reads of the heads of logs, which are requests to the store.
const POLLS_PER_HEAD: u32 = 5;
const HEAD_READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The kinds of datasets, as metrics name them.
const KINDS: [&str; 4] = ["live", "sandbox", "projects", "alerts"];

/// The index of a dataset's kind.
const fn kind_of(dataset: &Dataset) -> usize {
    match dataset {
        Dataset::Live => 0,
        Dataset::Sandbox => 1,
        Dataset::Project(_) => 2,
        Dataset::Alerts(_) => 3,
    }
}

/// Lags of the followers of one dataset's log.
#[derive(Default)]
struct Followers {
    rows: FollowerLag,
    fan_out: FollowerLag,
    search: FollowerLag,
}

pub(crate) async fn run(core: Arc<Core>) {
    let mut every = interval(POLL_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut followers = HashMap::new();
    let measuring = async {
        for poll in (0..POLLS_PER_HEAD).cycle() {
            every.tick().await;
            measure_rest(&core);
            if poll == 0 {
                measure_heads(&core, &mut followers).await;
            }
            measure_logs(&core, &mut followers);
        }
    };
    core.stop.run_until_cancelled(measuring).await;
}

/// Reads how far the logs that everybody shares reach, and measures the lag of their rows.
async fn measure_heads(core: &Core, followers: &mut HashMap<Dataset, Followers>) {
    for DatasetProgress { dataset, position, .. } in core.datasets.progress() {
        if !dataset.is_shared() {
            continue;
        }
        let name = KINDS[kind_of(&dataset)];
        if let Ok(Ok((head, position))) = timeout(HEAD_READ_TIMEOUT, head_of(core, &dataset, position)).await {
            HEAD.at(name).set(value(head));
            PROJECTION_LAG.at(name).set(value(head.saturating_sub(position)));
            let lag = &mut followers.entry(dataset).or_default().rows;
            PROJECTION_SECONDS.at(name).set(lag.seconds(head, position));
        }
    }
}

fn measure_logs(core: &Core, followers: &mut HashMap<Dataset, Followers>) {
    let all = core.datasets.progress();
    FOLLOWED.one().set(value(all.len() as u64));
    WRITTEN.one().set(value(all.iter().filter(|progress| progress.fanned_out.is_some()).count() as u64));
    // By kind, the sum of the positions; and of fan-out and search, the largest lags in entries and seconds.
    let (mut projected, mut lags) = ([0; KINDS.len()], [[(0_u64, 0.0_f64); 2]; KINDS.len()]);
    let mut before = take(followers);
    for DatasetProgress { dataset, position, fanned_out } in all {
        let kind = kind_of(&dataset);
        let mut behind = before.remove(&dataset).unwrap_or_default();
        let fanned_out = fanned_out.unwrap_or(position);
        // The index does not follow a project that nobody searches, so it has no lag.
        let seen = if core.search.follows(&dataset) { core.search.position(&dataset) } else { position };
        projected[kind] += position;
        let reached = [(&mut behind.fan_out, fanned_out), (&mut behind.search, seen)];
        for ((entries, time), (follower, reached)) in lags[kind].iter_mut().zip(reached) {
            *entries = position.saturating_sub(reached).max(*entries);
            *time = follower.seconds(position, reached).max(*time);
        }
        followers.insert(dataset, behind);
    }
    for ((name, projected), [fan_out, search]) in KINDS.into_iter().zip(projected).zip(lags) {
        PROJECTED.at(name).set(value(projected));
        FAN_OUT_LAG.at(name).set(value(fan_out.0));
        FAN_OUT_SECONDS.at(name).set(fan_out.1);
        SEARCH_LAG.at(name).set(value(search.0));
        SEARCH_SECONDS.at(name).set(search.1);
    }
}

/// Reads the head and the projected position of a dataset's log. The known values of this core may be old if it does
/// not follow the dataset.
async fn head_of(core: &Core, dataset: &Dataset, known: u64) -> Result<(u64, u64)> {
    let head = core.shared.log.head(&dataset.to_string(), known, Consistency::Quorum).await?;
    Ok((head, core.datasets.refresh(dataset).await?))
}

fn measure_rest(core: &Core) {
    let control = &core.shared.control;
    CONTROL_HEAD.one().set(value(control.head()));
    CONTROL_AGE.one().set(seconds(control.age_ms()));
    MEMBERS.one().set(value(core.members.others().borrow().len() as u64 + 1));
    let queue = core.dispatcher.queue_metrics();
    SHARDS.one().set(value(queue.shards as u64));
    WORKERS.one().set(value(queue.workers as u64));
    for (name, lane) in [("normal", queue.normal), ("slow", queue.slow)] {
        READY.at(name).set(value(lane.ready as u64));
        OUT.at(name).set(value(lane.out as u64));
        OLDEST.at(name).set(seconds(lane.oldest_ms));
    }
}

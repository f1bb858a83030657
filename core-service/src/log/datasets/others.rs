//! Follows what other cores do to logs: how far the logs are projected, and work that dead cores left.
//!
//! Notifications bring the positions of logs. A core that dies may not have sent the last ones, and none come from a
//! core that is not connected. So positions are read too: now and then, and each second while a core is not connected.
//!
//! Only the logs that others write are read, whatever the number of followed ones. A core has a row in `unfinished`
//! from before its first append until it has rested for 40 seconds and all is done. So a log whose position has moved
//! since the last scan of these rows has one at this scan, or had one at the last, if the scans are 30 seconds apart at
//! most. After a longer pause, after a failed scan and after a new connection, all followed logs are read.

use std::{cmp::Reverse, collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::Datasets;
use crate::{domain::dataset::Dataset, error::Result, log::unfinished::STALE_MARK_AGE_MS, tables::unfinished};

/// Age of a live core's mark in milliseconds from which the core has surely failed to finish its work.
pub(super) const ABANDONED_AGE_MS: i64 = 2 * STALE_MARK_AGE_MS;
/// Interval between two reads of positions while another core is not connected, or after a failed one.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of polls between two reads of positions while every other core is connected.
const POLLS_PER_READ: u32 = 10;
/// Maximum time between the starts of two scans of which the second one finds all logs that others have written.
const MAX_SCAN_PAUSE: Duration = Duration::from_secs(30);
/// Interval between two scans for work that other cores left.
const SCAN_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of positions that are read at the same time.
const MAX_READS: usize = 32;

/// Logs to read at the next round even if they have no row then: others had rows of them at the last scan, or a read
/// failed. The value is the number of entries by which the last read moved the position.
type WrittenLogs = HashMap<String, u64>;

/// A round of reads.
#[derive(Default)]
struct Round {
    /// The start of the scan of rows, and the number of connections then. None if the scan has failed.
    scan: Option<(Instant, u64)>,
    written: WrittenLogs,
    has_failed: bool,
}

fn every(period: Duration) -> Interval {
    let mut every = interval(period);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every
}

impl Datasets {
    /// Follows the positions of logs that other cores write, and takes over work that cores left, until stopped.
    pub async fn watch(self: Arc<Self>) {
        if self.shared.backend.is_exclusive() {
            return;
        }
        // Dead cores' work does not wait for a long round of reads.
        let watching = async { tokio::join!(self.read_positions(), self.take_over_work()) };
        self.stop.run_until_cancelled(watching).await;
    }

    async fn read_positions(&self) {
        let (mut poll, mut all_connected) = (every(POLL_INTERVAL), self.peers.all_connected());
        let (mut last, mut polls_left) = (Round::default(), 0);
        loop {
            let is_due = tokio::select! {
                _ = poll.tick() => polls_left == 0 || !*all_connected.borrow(),
                Ok(()) = all_connected.changed() => true,
            };
            if !is_due {
                polls_left -= 1;
                continue;
            }
            last = self.read_written(&last).await;
            polls_left = if last.has_failed { 0 } else { POLLS_PER_READ - 1 };
        }
    }

    /// Reads the positions of the followed logs that other cores write, or of all followed ones if it is not known
    /// which these are. Those that moved most at the last round come first.
    async fn read_written(&self, last: &Round) -> Round {
        let (now, connections) = (Instant::now(), self.peers.connections());
        let mut round = Round { scan: Some((now, connections)), ..Round::default() };
        let followed = self.followed();
        if followed.is_empty() {
            return round;
        }
        match unfinished::list_all(&self.shared.backend).await {
            // The writer here moves the positions of its own entries.
            Ok(rows) => {
                for row in rows.into_iter().filter(|row| row.replica != self.shared.replica) {
                    let moved = last.written.get(&row.dataset).copied().unwrap_or_default();
                    round.written.insert(row.dataset, moved);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "scanning for logs that other cores write failed, reading all");
                round.scan = None;
            }
        }
        let has_gap = |(at, before): (Instant, u64)| before != connections || now.duration_since(at) > MAX_SCAN_PAUSE;
        let reads_all = round.scan.is_none() || last.scan.is_none_or(has_gap);
        let mut logs: Vec<(u64, Dataset)> = Vec::new();
        for dataset in followed {
            let name = dataset.to_string();
            let moved = round.written.get(&name).or_else(|| last.written.get(&name)).copied();
            if let Some(moved) = moved.or(reads_all.then_some(0)) {
                logs.push((moved, dataset));
            }
        }
        logs.sort_unstable_by_key(|(moved, _)| Reverse(*moved));
        self.read_logs(logs, &mut round).await;
        round
    }

    /// Reads positions, some at the same time.
    async fn read_logs(&self, logs: Vec<(u64, Dataset)>, round: &mut Round) {
        let reads = stream::iter(logs).map(|(_, dataset)| async move {
            let moved = self.read_move(&dataset).await;
            (dataset, moved)
        });
        let mut reads = reads.buffer_unordered(MAX_READS);
        while let Some((dataset, moved)) = reads.next().await {
            let name = dataset.to_string();
            match moved {
                Ok(moved) => {
                    if let Some(known) = round.written.get_mut(&name) {
                        *known = moved;
                    }
                }
                Err(error) => {
                    tracing::debug!(%dataset, %error, "reading a position failed, trying again");
                    round.written.entry(name).or_default();
                    round.has_failed = true;
                }
            }
        }
    }

    /// Reads a position. Returns the number of entries by which it moved.
    async fn read_move(&self, dataset: &Dataset) -> Result<u64> {
        let before = self.with(dataset, |open| *open.position.borrow());
        Ok(self.refresh(dataset).await?.saturating_sub(before))
    }

    /// The datasets whose position somebody follows.
    fn followed(&self) -> Vec<Dataset> {
        let open = self.open.lock();
        let followed = open.iter().filter(|(_, open)| open.position.receiver_count() > 0);
        followed.map(|(dataset, _)| dataset.clone()).collect()
    }

    async fn take_over_work(self: &Arc<Self>) {
        let (mut scan, mut others) = (every(SCAN_INTERVAL), self.peers.others());
        loop {
            tokio::select! {
                _ = scan.tick() => {}
                Ok(()) = others.changed() => {}
            }
            if let Err(error) = self.take_over().await {
                tracing::warn!(%error, "looking for work left undone failed, trying again");
                scan.reset_after(POLL_INTERVAL);
            }
        }
    }

    /// Finishes the work of dead cores on this core's logs, and work that was left unfinished for a long time.
    pub(super) async fn take_over(self: &Arc<Self>) -> Result<()> {
        let now_ms = self.shared.clock.now_ms();
        for row in unfinished::list_all(&self.shared.backend).await? {
            let is_abandoned = self.peers.is_dead(&row.replica) || row.at + ABANDONED_AGE_MS < now_ms;
            if !is_abandoned || !self.peers.owns(&row.dataset) {
                continue;
            }
            if let Some(dataset) = Dataset::parse(&row.dataset) {
                self.writer(&dataset).request_catch_up();
            }
        }
        Ok(())
    }
}

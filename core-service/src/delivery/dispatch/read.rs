//! Reads the queues: their due rows, and the marks that name queues with due rows.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::future::try_join_all;
use tokio::sync::watch;

use super::{Dispatcher, MAX_READS, endpoint::QueuePart, shards::Tenure, state::due_at, unsendable};
use crate::{
    delivery::rule::{DeliveryRule, Verdict},
    domain::{
        delivery::Delivery,
        retry::MAX_DELAY_MS,
        window::{HOUR_MS, MINUTE_MS},
    },
    error::Result,
    queue_hints::PendingDelivery,
    tables::{
        deliveries::DeliveryChange,
        delivery_rows::RETENTION_SECONDS,
        queue::{
            MARK_RETENTION_MS, MARKED_MINUTES, MarkSelection, POSTPONE_MINUTES, POSTPONED_MINUTES, QueueMark,
            QueuePage, QueuePosition, QueuedAttempt, cut_overlaps, end_of, minute_of, shard_of, start_of,
        },
    },
};

/// Maximum number of rows of a queue that one read returns.
const PAGE_ROWS: usize = 128;
/// Interval between two reads of marks while another core is not connected, in milliseconds.
const DISCONNECTED_READ_MS: i64 = 2_000;
/// Minutes after which all marks of a minute are written, even if the clocks of the cores differ.
pub(super) const LATE_MINUTES: i64 = 3;
/// Pause after a failed read of a queue.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct MarkProgress {
    /// By shard: the time since which this core holds it, and the last minute whose marks were read.
    done: HashMap<i64, (i64, i64)>,
    /// True while the notifications of every other core arrive.
    all_connected: watch::Receiver<bool>,
    /// Time of the last read of marks because a core was not connected.
    read_at: i64,
    /// True if that read failed.
    failed: bool,
}

impl MarkProgress {
    pub(super) fn new(all_connected: watch::Receiver<bool>) -> Self {
        Self { done: HashMap::new(), all_connected, read_at: 0, failed: false }
    }
}

/// The delivery as stored, if somebody requested its next attempt early.
fn hastened(delivery: Delivery, row: &QueuedAttempt) -> Delivery {
    let is_hastened = !delivery.is_over() && row.hastened == delivery.attempt_count() + 1;
    if is_hastened { Delivery { next_attempt_at: Some(row.due_at), ..delivery } } else { delivery }
}

impl Dispatcher {
    /// Reads the marks of queue rows that other cores wrote, while not all of them are connected and whenever that
    /// changes: a core may have written rows before it was connected.
    pub(super) async fn read_marks_of_others(&self, progress: &mut MarkProgress, now_ms: i64) -> Result<()> {
        let changed = progress.all_connected.has_changed().unwrap_or_default();
        let all_connected = *progress.all_connected.borrow_and_update() && !changed && !progress.failed;
        let is_early = !changed && now_ms - progress.read_at < DISCONNECTED_READ_MS;
        if self.shared.backend.is_exclusive() || all_connected || is_early {
            return Ok(());
        }
        (progress.failed, progress.read_at) = (true, now_ms);
        let to = minute_of(now_ms) + 1;
        let done: Vec<(i64, i64)> = progress.done.iter().map(|(shard, (_, done))| (*shard, *done)).collect();
        self.read_marked(self.new_marks(&done, to).await?, now_ms);
        progress.failed = false;
        Ok(())
    }

    /// Requests reads of the parts of queues that the marks name.
    fn read_marked(&self, marks: BTreeSet<QueueMark>, now_ms: i64) {
        let mut state = self.state.lock();
        for QueueMark { webhook, since, to } in cut_overlaps(marks) {
            state.expect_part(&webhook.into(), since, to, now_ms);
        }
    }

    /// Reads a part of a webhook's queue, and adds the due deliveries.
    pub(super) async fn read_queue(self: Arc<Self>, webhook: Arc<str>, part: QueuePart) {
        let next = match self.read_page(&webhook, &part, self.shared.clock.now_ms()).await {
            Ok(next) => next.map(|from| (from, part.1)),
            Err(error) => {
                tracing::warn!(webhook = &*webhook, %error, "reading a queue failed, trying again");
                tokio::time::sleep(RETRY_PAUSE).await;
                Some(part)
            }
        };
        self.state.lock().end_read(&webhook, next);
        self.shared.hints.wake();
    }

    /// Reads a page. Returns the position after which more rows may be due.
    async fn read_page(
        &self,
        webhook: &Arc<str>,
        (from, to): &QueuePart,
        now_ms: i64,
    ) -> Result<Option<QueuePosition>> {
        // Deliveries read now change under this epoch. Without a lease, the shard's next core reads its queues.
        let Some(Tenure { epoch, .. }) = self.shards.tenure(shard_of(webhook), now_ms) else { return Ok(None) };
        let rule = self.current_rule(webhook, now_ms).await?;
        // Cancelled deliveries end before they are due.
        let is_over = rule.is_none_or(DeliveryRule::ends_all);
        // A part with an end is that of a mark or of one attempt, so it has few rows.
        let marks_from = (is_over || *to == i64::MAX).then_some(now_ms - MARK_RETENTION_MS);
        let to = if is_over { now_ms + MAX_DELAY_MS } else { end_of(minute_of(now_ms)).min(*to) };
        let from = from.clone().max((now_ms - i64::from(RETENTION_SECONDS) * 1_000, String::new()));
        let queue = &self.shared.deliveries.queue;
        let QueuePage { rows, next } = queue.page(webhook, &from, to, PAGE_ROWS, marks_from).await?;
        let ids: Vec<String> = rows.iter().map(|row| row.delivery.clone()).collect();
        let stored = self.shared.deliveries.rows(&ids).await?;
        let (mut stale, mut writes) = (Vec::new(), Vec::new());
        for (row, stored) in rows.into_iter().zip(stored) {
            let delivery = match stored {
                Ok(Some(stored)) => hastened(stored, &row),
                // Rows without a delivery hold up nothing.
                Ok(None) => continue,
                Err(error) => {
                    // No attempt of this delivery could be counted. The webhook's others do not wait for it.
                    tracing::error!(id = row.delivery, %error, "a delivery cannot be read and is not sent");
                    continue;
                }
            };
            // A paused core may have queued a later attempt than the delivery expects yet. That row stays and counts.
            if delivery.next_attempt_at.is_none_or(|due_at| due_at > row.due_at) {
                if self.is_stale(webhook, &row, &delivery, now_ms) {
                    stale.push(row);
                }
                continue;
            }
            // The report of an attempt under way decides. Without a report, this row is read again.
            if self.state.lock().has_handed_out(&delivery.id, delivery.attempt_count() + 1) {
                continue;
            }
            match rule.map_or(Verdict::Cancel, |rule| rule.verdict(&delivery)) {
                Verdict::Cancel => writes.push(DeliveryChange { after: delivery.cancelled(), before: delivery, epoch }),
                _ if row.due_at > now_ms => {
                    self.state.lock().expect(webhook, row.due_at, now_ms);
                    if !is_over {
                        break;
                    }
                }
                Verdict::Wait => self.state.lock().add_waiting(webhook, due_at(&delivery)),
                Verdict::Send => writes.extend(self.add_or_fail(webhook, delivery, epoch, now_ms).await?),
            }
        }
        if !stale.is_empty() {
            queue.remove(webhook, &stale).await?;
        }
        self.shared.deliveries.advance(&writes, now_ms).await?.into_iter().try_for_each(|advanced| advanced)?;
        Ok(next.filter(|(due_at, _)| is_over || *due_at <= now_ms))
    }

    /// True if nobody needs a queue row whose delivery is over or expects a later attempt. Notes when the delivery is
    /// due instead: the report of the attempt that was due here may have been cut off.
    fn is_stale(&self, webhook: &Arc<str>, row: &QueuedAttempt, delivery: &Delivery, now_ms: i64) -> bool {
        let mut state = self.state.lock();
        if let Some(due_at) = delivery.next_attempt_at.filter(|due_at| *due_at > row.due_at) {
            state.expect(webhook, due_at, now_ms);
        }
        // A report that is being counted here may be about to need any row. One that another core counts may need a row
        // that is not due yet.
        row.due_at <= now_ms && !state.is_under_way(&delivery.id, delivery.attempt_count() + 1)
    }

    /// The rule of a webhook's deliveries. This core may not know yet that the webhook was created or enabled, or its
    /// project approved. When control cannot be read, nothing is cancelled and the queue is read again.
    async fn current_rule(&self, webhook: &str, now_ms: i64) -> Result<Option<DeliveryRule>> {
        if self.find_rule(webhook, now_ms).is_none_or(|(_, rule)| rule.ends_all()) {
            self.shared.control.refresh().await?;
        }
        Ok(self.find_rule(webhook, now_ms).map(|(_, rule)| rule))
    }

    /// Adds a due delivery if this core holds its shard. Returns the failure of one that cannot be sent.
    async fn add_or_fail(
        &self,
        webhook: &str,
        delivery: Delivery,
        epoch: i64,
        now_ms: i64,
    ) -> Result<Option<DeliveryChange>> {
        let erasure = self.recent_erasure(&delivery).await?;
        match self.body(&delivery, erasure).await? {
            Ok(body) => {
                if self.shards.taken_at(shard_of(webhook)).is_some() {
                    self.state.lock().add_ready(PendingDelivery { delivery, body, erasure, epoch }, now_ms);
                }
                Ok(None)
            }
            Err(why) => {
                Ok(Some(DeliveryChange { after: unsendable::failed(&delivery, &why, now_ms), before: delivery, epoch }))
            }
        }
    }

    /// Takes over the queues of shards that are new here. Once a minute, reads marks of rows that this core was not
    /// notified of, and postpones the marks of pending deliveries, so that the next core has little to read.
    pub(super) async fn check_marks(&self, progress: &mut MarkProgress, now_ms: i64) -> Result<()> {
        let held = self.shards.held();
        let minute = minute_of(now_ms);
        // A shard is taken over anew when the clock was set back.
        let is_known =
            |shard: &i64, (taken_at, done): &(i64, i64)| held.get(shard) == Some(taken_at) && *done <= minute;
        if progress.done.iter().any(|(shard, taken)| !is_known(shard, taken)) {
            progress.done.retain(|shard, taken| is_known(shard, taken));
            self.state.lock().retain(|webhook| progress.done.contains_key(&shard_of(webhook)));
        }
        let new: Vec<(i64, i64)> = held.into_iter().filter(|(shard, _)| !progress.done.contains_key(shard)).collect();
        if !new.is_empty() {
            self.shared.deliveries.queue.note_takeover();
        }
        for some in new.chunks(MAX_READS) {
            let taken = some.iter().map(async |(shard, taken_at)| {
                Result::Ok((*shard, (*taken_at, self.take_over(*shard, now_ms).await?)))
            });
            progress.done.extend(try_join_all(taken).await?);
        }
        let upto = minute - LATE_MINUTES;
        if progress.done.values().any(|(_, done)| *done < upto) {
            let is_known = |webhook: &str| self.shared.control.state().webhook(webhook).is_some();
            self.state.lock().forget_deleted(is_known);
        }
        self.read_minutes(&mut progress.done, upto, minute).await
    }

    /// Reads every mark that a shard's last core may have left. If some of them may have expired, it reads the queues
    /// of all webhooks too: the rows due since the last minute that the last core has stored or, if no mark names what
    /// was pending then, all rows.
    async fn take_over(&self, shard: i64, now_ms: i64) -> Result<i64> {
        let (queue, minute) = (&self.shared.deliveries.queue, minute_of(now_ms));
        // Minutes that have not come yet were noted by a clock that was wrong.
        let stored = queue.done(shard).await?.filter(|done| *done <= minute);
        let oldest = minute - MARKED_MINUTES;
        if stored.is_none_or(|done| done < oldest) {
            let postponed = stored.filter(|done| *done >= minute - POSTPONED_MINUTES);
            self.expect_all(shard, postponed.map(start_of), now_ms).await?;
        }
        let done = stored.unwrap_or(oldest).max(minute - POSTPONED_MINUTES);
        let last = minute_of(now_ms + MAX_DELAY_MS) + 1;
        self.read_marked(self.marks(shard, done + 1, last, MarkSelection::All).await?, now_ms);
        Ok(done.max(minute - LATE_MINUTES - 1))
    }

    /// Requests reads of the queues of all webhooks of a shard, from a due time or from their begin on.
    async fn expect_all(&self, shard: i64, from: Option<i64>, now_ms: i64) -> Result<()> {
        self.shared.control.refresh().await?;
        let mut state = self.state.lock();
        let control = self.shared.control.state();
        // No delivery was due before the first organization, and organizations are never deleted.
        let begin = || control.organizations().map(|row| row.created_at).min().unwrap_or(now_ms);
        let first = from.unwrap_or_else(begin).max(now_ms - i64::from(RETENTION_SECONDS) * 1_000);
        for webhook in control.every_webhook().filter(|webhook| shard_of(&webhook.id) == shard) {
            state.expect(&webhook.id.as_str().into(), first, now_ms);
        }
        Ok(())
    }

    async fn marks(&self, shard: i64, from: i64, to: i64, wanted: MarkSelection) -> Result<BTreeSet<QueueMark>> {
        let mut marks = BTreeSet::new();
        let mut minute = from;
        while minute <= to {
            marks.extend(self.shared.deliveries.queue.marks(shard, minute, to, wanted).await?);
            let hour = start_of(minute).div_euclid(HOUR_MS);
            minute = (hour + 1) * HOUR_MS / MINUTE_MS;
        }
        Ok(marks)
    }

    /// Reads the new marks of shards up to a minute, of each from the minute after the given one.
    async fn new_marks(&self, done: &[(i64, i64)], to: i64) -> Result<BTreeSet<QueueMark>> {
        let marks = done.iter().map(|(shard, done)| self.marks(*shard, *done + 1, to, MarkSelection::New));
        Ok(try_join_all(marks).await?.into_iter().flatten().collect())
    }

    async fn read_minutes(&self, done: &mut HashMap<i64, (i64, i64)>, upto: i64, now: i64) -> Result<()> {
        if done.values().all(|(_, done)| *done >= upto) {
            return Ok(());
        }
        let firsts = self.state.lock().firsts();
        // Attempts of a shard that is leaving, or that is lost, may have left memory before it was read. The shard's
        // next core needs their marks.
        let now_ms = self.shared.clock.now_ms();
        let is_kept =
            |shard, taken_at| self.shards.serves(shard, now_ms) && self.shards.taken_at(shard) == Some(taken_at);
        let behind = done.iter().filter(|(shard, (taken_at, done))| *done < upto && is_kept(**shard, *taken_at));
        let behind: HashMap<i64, i64> = behind.map(|(shard, (_, done))| (*shard, *done)).collect();
        // The queues of the marks that were read a minute ago have been read since.
        let is_left = |(webhook, first): &(Arc<str>, i64)| {
            behind.get(&shard_of(webhook)).is_some_and(|done| minute_of(*first) <= *done)
        };
        let left: Vec<(Arc<str>, i64)> = firsts.into_iter().filter(is_left).collect();
        let behind: Vec<(i64, i64)> = behind.into_iter().collect();
        if behind.is_empty() {
            return Ok(());
        }
        let queue = &self.shared.deliveries.queue;
        if !left.is_empty() {
            queue.postpone_marks(&left, now + POSTPONE_MINUTES).await?;
        }
        queue.set_done(&behind).await?;
        // Rows, not memory, bring an attempt back: the process that wrote them may have ended before this core learned
        // of them.
        self.read_marked(self.new_marks(&behind, upto).await?, start_of(now));
        for (shard, _) in behind {
            if let Some((_, done)) = done.get_mut(&shard) {
                *done = upto;
            }
        }
        Ok(())
    }
}

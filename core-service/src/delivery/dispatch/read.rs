//! Reads what the queues have: rows that are due, and marks.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::sync::watch;

use super::{Dispatcher, endpoint::Place, unsendable};
use crate::{
    delivery::serving::{Serving, Verdict},
    domain::{
        delivery::Delivery,
        window::{HOUR_MS, MINUTE_MS},
    },
    error::Result,
    shared::queue_hints::Made,
    tables::{
        deliveries::Step,
        queue::{Mark, Marks, Queued, first_of, minute_of, shard_of},
        told::KEPT,
    },
};

/// Most rows of a queue read at once.
const PAGE: usize = 128;
/// How often marks are looked at while another core is not heard, in milliseconds.
const UNHEARD_MS: i64 = 2_000;
/// Minutes after which all marks of a minute are written, whatever the clocks of other cores say.
const LATE_MINUTES: i64 = 3;
/// Minutes for which a mark of something that is left is put off.
const PUT_OFF_MINUTES: i64 = 5;
/// Longest time to the next attempt, in milliseconds.
const LONGEST_DELAY_MS: i64 = 12 * HOUR_MS;
/// The pause after a queue could not be read.
const PAUSE: Duration = Duration::from_millis(200);

/// What was read of marks.
pub(super) struct Pages {
    /// By shard, since when it is held, and the last minute whose marks were read.
    done: HashMap<i64, (i64, i64)>,
    /// Whether the news of every other core are heard.
    all_heard: watch::Receiver<bool>,
    /// When marks were last looked at because they are not, or were not; and whether that failed.
    looked_at: i64,
    failed: bool,
}

impl Pages {
    pub(super) fn new(all_heard: watch::Receiver<bool>) -> Self {
        Self { done: HashMap::new(), all_heard, looked_at: 0, failed: false }
    }
}

impl Dispatcher {
    /// Looks for queue rows that other cores wrote, as long as not all of them are heard, and whenever that changes: a
    /// core may have written some before it was heard.
    pub(super) async fn look_for_unheard(&self, pages: &mut Pages, now_ms: i64) -> Result<()> {
        let changed = pages.all_heard.has_changed().unwrap_or_default();
        let all_heard = *pages.all_heard.borrow_and_update() && !changed && !pages.failed;
        let is_early = !changed && now_ms - pages.looked_at < UNHEARD_MS;
        if self.shared.backend.is_exclusive() || all_heard || is_early {
            return Ok(());
        }
        (pages.failed, pages.looked_at) = (true, now_ms);
        for (shard, (_, done)) in &pages.done {
            let marks = self.marks(*shard, *done + 1, minute_of(now_ms) + 1, Marks::New).await?;
            self.read_marked(marks);
        }
        pages.failed = false;
        Ok(())
    }

    /// Has the queues of marks read.
    fn read_marked(&self, marks: BTreeSet<Mark>) {
        let mut state = self.state.lock();
        for Mark { webhook, since } in marks {
            state.read_from(&webhook.into(), first_of(since));
        }
    }

    /// Reads a webhook's queue from a place on, and takes in what is due.
    pub(super) async fn read_queue(self: Arc<Self>, webhook: Arc<str>, place: Place) {
        let next = match self.read_page(&webhook, &place, self.shared.clock.now_ms()).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(webhook = &*webhook, %error, "reading a queue failed, trying again");
                tokio::time::sleep(PAUSE).await;
                Some(place)
            }
        };
        self.state.lock().end_read(&webhook, next);
        self.shared.hints.wake();
    }

    /// Reads a page; gives the place where there may be more that is due.
    async fn read_page(&self, webhook: &Arc<str>, place: &Place, now_ms: i64) -> Result<Option<Place>> {
        if self.serving(webhook, now_ms).is_none_or(|(_, serving)| serving.ends_all()) {
            // This core may not know yet that the webhook was created or enabled, or its project approved. When control
            // cannot be read, nothing is cancelled and the queue is read again.
            self.shared.control.refresh().await?;
        }
        let serving = self.serving(webhook, now_ms).map(|(_, serving)| serving);
        // What is cancelled is cancelled before it is due.
        let is_over = serving.is_none_or(Serving::ends_all);
        let to = if is_over { now_ms + LONGEST_DELAY_MS } else { first_of(minute_of(now_ms) + 1) - 1 };
        let oldest = now_ms - i64::from(KEPT) * 1_000;
        let from = if place.0 < oldest { (oldest, String::new()) } else { place.clone() };
        let rows = self.shared.deliveries.queue.read(webhook, &from, to, PAGE).await?;
        let last = rows.last().filter(|_| rows.len() == PAGE).map(|row| (row.due_at, row.delivery.clone()));
        let ids: Vec<String> = rows.iter().map(|row| row.delivery.clone()).collect();
        let stored = self.shared.deliveries.rows(&ids).await?;
        let (mut stale, mut steps) = (Vec::new(), Vec::new());
        for (row, stored) in rows.into_iter().zip(stored) {
            let stored = match stored {
                // Its delivery is not known. The webhook's other deliveries do not wait for it.
                Ok(None) if row.is_damaged => continue,
                Err(error) => {
                    // No attempt of it could be counted.
                    let delivery = &row.delivery;
                    tracing::error!(webhook = &**webhook, delivery, %error, "a delivery cannot be read and is not sent");
                    continue;
                }
                Ok(stored) => stored,
            };
            let next = stored.as_ref().and_then(|stored| stored.next_attempt_at);
            let Some(delivery) = due(webhook, &row, stored) else {
                // The report of the attempt that was due here may have been cut off.
                if let Some(due_at) = next.filter(|due_at| *due_at > row.due_at) {
                    self.state.lock().expect(webhook, due_at, now_ms);
                }
                // An attempt that has not ended yet may be about to need a later row.
                if row.due_at <= now_ms {
                    stale.push(row);
                }
                continue;
            };
            match serving.map_or(Verdict::Cancel, |serving| serving.verdict(&delivery)) {
                Verdict::Cancel => {
                    let after = delivery.cancelled();
                    steps.push(Step { before: delivery, after });
                }
                _ if row.due_at > now_ms => {
                    self.state.lock().expect(webhook, row.due_at, now_ms);
                    if !is_over {
                        break;
                    }
                }
                Verdict::Wait => self.state.lock().wait(webhook, row.due_at),
                Verdict::Send => match self.body(&delivery).await? {
                    Ok(body) => self.take_in(webhook, Made { delivery, body }, now_ms),
                    Err(why) => {
                        let after = unsendable::failed(&delivery, &why, now_ms);
                        steps.push(Step { before: delivery, after });
                    }
                },
            }
        }
        if !stale.is_empty() {
            self.shared.deliveries.queue.remove(webhook, &stale).await?;
        }
        if !steps.is_empty() {
            for advanced in self.shared.deliveries.advance(&steps, now_ms).await? {
                advanced?;
            }
        }
        Ok(last.filter(|(due_at, _)| is_over || *due_at <= now_ms))
    }

    fn take_in(&self, webhook: &str, made: Made, now_ms: i64) {
        if self.shards.taken_at(shard_of(webhook)).is_some() {
            self.state.lock().add(made, now_ms);
        }
    }

    /// Takes over the queues of shards that are new here. Once a minute, looks for rows that nobody told this core of,
    /// and puts off the marks of what is left, so that the next core has little to read.
    pub(super) async fn look_at_marks(&self, pages: &mut Pages, now_ms: i64) -> Result<()> {
        let held = self.shards.held();
        let minute = minute_of(now_ms);
        // A shard is taken over anew when the clock was set back.
        let is_known =
            |shard: &i64, (taken_at, done): &(i64, i64)| held.get(shard) == Some(taken_at) && *done <= minute;
        if pages.done.iter().any(|(shard, taken)| !is_known(shard, taken)) {
            pages.done.retain(|shard, taken| is_known(shard, taken));
            self.state.lock().retain(|webhook| pages.done.contains_key(&shard_of(webhook)));
        }
        for (shard, taken_at) in &held {
            if !pages.done.contains_key(shard) {
                let done = self.take_over(*shard, now_ms).await?;
                pages.done.insert(*shard, (*taken_at, done));
            }
        }
        let upto = minute - LATE_MINUTES;
        if pages.done.values().any(|(_, done)| *done < upto) {
            let is_known = |webhook: &str| self.shared.control.state().webhook(webhook).is_some();
            self.state.lock().forget_deleted(is_known);
        }
        self.look_at_minutes(&mut pages.done, upto, minute).await
    }

    /// Reads every mark that a shard's last core may have left.
    async fn take_over(&self, shard: i64, now_ms: i64) -> Result<i64> {
        let queue = &self.shared.deliveries.queue;
        // Minutes that have not come yet were noted by a clock that was wrong.
        let done = match queue.done(shard).await?.filter(|done| *done <= minute_of(now_ms)) {
            Some(done) => done,
            // Nothing was due before there was an organization, and organizations are never deleted.
            None => {
                let created_at = self.shared.control.state().organizations().map(|row| row.created_at).min();
                let first = created_at.unwrap_or(now_ms).max(now_ms - i64::from(KEPT) * 1_000);
                minute_of(first) - LATE_MINUTES
            }
        };
        let last = minute_of(now_ms + LONGEST_DELAY_MS) + 1;
        for Mark { webhook, since } in self.marks(shard, done + 1, last, Marks::All).await? {
            self.state.lock().expect(&webhook.into(), first_of(since), now_ms);
        }
        Ok(done)
    }

    /// The marks of a shard's minutes.
    async fn marks(&self, shard: i64, from: i64, to: i64, wanted: Marks) -> Result<BTreeSet<Mark>> {
        let mut marks = BTreeSet::new();
        let mut minute = from;
        while minute <= to {
            marks.extend(self.shared.deliveries.queue.marks(shard, minute, to, wanted).await?);
            let hour = first_of(minute).div_euclid(HOUR_MS);
            minute = (hour + 1) * HOUR_MS / MINUTE_MS;
        }
        Ok(marks)
    }

    async fn look_at_minutes(&self, done: &mut HashMap<i64, (i64, i64)>, upto: i64, now: i64) -> Result<()> {
        let queue = &self.shared.deliveries.queue;
        for (shard, (taken_at, done)) in done.iter_mut().filter(|(_, (_, done))| *done < upto) {
            // Attempts of a shard that is leaving, or whose lease has lapsed, may have left memory. Its next core needs
            // their marks.
            if !self.shards.serves(*shard, self.shared.clock.now_ms())
                || self.shards.taken_at(*shard) != Some(*taken_at)
            {
                continue;
            }
            // The queues of the marks that were read a minute ago have been read since.
            let left: Vec<Mark> = {
                let state = self.state.lock();
                let firsts = state.firsts().into_iter();
                let left = firsts.filter(|(webhook, first)| shard_of(webhook) == *shard && minute_of(*first) <= *done);
                left.map(|(webhook, first)| Mark { webhook: webhook.to_string(), since: minute_of(first) }).collect()
            };
            if !left.is_empty() {
                queue.put_off(&left, now + PUT_OFF_MINUTES).await?;
            }
            queue.set_done(*shard, *done).await?;
            // Rows, not memory, bring an attempt back: the process that wrote them may have ended before this core learned
            // of them.
            self.read_marked(self.marks(*shard, *done + 1, upto, Marks::New).await?);
            *done = upto;
        }
        Ok(())
    }
}

/// The delivery of a queue row, if its attempt is still to be made.
fn due(webhook: &str, row: &Queued, stored: Option<Delivery>) -> Option<Delivery> {
    let pending = || {
        let told = row.told.clone()?;
        Some(Delivery::pending(row.delivery.clone(), webhook.to_owned(), row.due_at, told))
    };
    stored.or_else(pending).filter(|delivery| delivery.next_attempt_at == Some(row.due_at))
}

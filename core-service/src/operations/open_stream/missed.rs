//! Finds the events that a client missed while it was disconnected, and those of them that are not replayed.

use thesis_proto::{filter::CompiledFilter, time::format_millis};

use crate::{
    access::gate::Call,
    domain::{dataset::View, window::Floor},
    error::Result,
    log::{
        backward::{Backward, LogSlice},
        selection::{Selection, has_types, select},
    },
    service::Core,
    tables::{
        events::{EventScope, SeqRange},
        log::outline,
    },
};

const PAGE: usize = 500;

/// Missed events that are replayed. It is low in tests, so streams of the simulation have gaps.
pub(super) const MAX_REPLAYED: usize = if cfg!(test) { 20 } else { 1_000 };

/// Skipped events that are counted.
pub(super) const MAX_COUNTED: i64 = 10_000;

/// Entries that are scanned to find where a stream starts.
const MAX_LOOKED_AT: usize = 200_000;
/// The same for a filter with texts: no index has them, so each scanned entry is read whole, several times.
const MAX_LOOKED_AT_FOR_TEXTS: usize = 20_000;

/// The events that a client missed: all that match between its cursor and the present.
pub(super) struct MissedEvents<'a> {
    pub(super) core: &'a Core,
    pub(super) call: &'a Call,
    pub(super) filter: &'a CompiledFilter,
    /// The logs that the stream reads.
    pub(super) logs: &'a View,
    pub(super) after: Vec<u64>,
    pub(super) live: &'a [u64],
    /// Events before it have left the history window.
    pub(super) floor: Floor,
}

/// Missed events that are not replayed.
pub(super) struct Gap {
    /// The stream begins after these.
    pub(super) begin: Vec<u64>,
    /// Their number, as far as it is counted.
    pub(super) skipped: Option<i64>,
    /// Time of the newest skipped event, and of the oldest one if all were scanned.
    newest: Option<i64>,
    oldest: Option<i64>,
}

impl MissedEvents<'_> {
    /// Entries that a scan examines at most.
    const fn max_looked_at(&self) -> usize {
        if self.filter.has_texts() { MAX_LOOKED_AT_FOR_TEXTS } else { MAX_LOOKED_AT }
    }

    /// True if the distance shows that few events were missed and all are within the window.
    async fn are_near(&self) -> Result<bool> {
        let distances = self.live.iter().zip(&self.after).map(|(live, after)| live - after);
        if distances.sum::<u64>() > MAX_REPLAYED as u64 {
            return Ok(false);
        }
        for (index, dataset) in self.logs.datasets().iter().enumerate() {
            let (after, bound) = (self.after[index], self.floor.bound_for(dataset));
            if self.live[index] > after && !self.core.datasets.is_since(dataset, after + 1, bound).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the index shows that few events were missed and all are within the window.
    async fn are_few(&self, scopes: &[EventScope]) -> Result<bool> {
        let mut left = MAX_REPLAYED;
        for (index, dataset) in self.logs.datasets().iter().enumerate() {
            let (name, after, live) = (dataset.to_string(), self.after[index], self.live[index]);
            let between = SeqRange { after, before: live + 1, projected: live };
            let found = self.core.shared.events.positions(&name, scopes, between, false, left + 1).await?;
            if found.len() > left {
                return Ok(false);
            }
            left -= found.len();
            if let Some(oldest) = found.first().copied()
                && let Some(body) = self.core.shared.log.get(&name, oldest).await?
                && outline(&body)?.created_at < self.floor.bound_for(dataset)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the events that are not replayed, if any: all but the newest, and those outside the history window.
    pub(super) async fn gap(&self) -> Result<Option<Gap>> {
        if self.are_near().await? {
            return Ok(None);
        }
        let (reader, view) = (self.core.shared.theses.direct_reader(), &self.call.caller.view);
        let selection = select(&reader, view, self.filter).await?;
        if let Selection::Scopes(scopes) = &selection
            && self.are_few(scopes).await?
        {
            return Ok(None);
        }
        let mut reader = self.backward(selection, &self.after);
        let mut begin: Vec<Option<u64>> = vec![None; self.after.len()];
        let (mut replayed, mut skipped, mut newest, mut oldest, mut scanned_to) = (0, 0, None, None, None);
        for _ in 0..self.max_looked_at() {
            if skipped > MAX_COUNTED {
                break;
            }
            tokio::task::coop::consume_budget().await;
            let Some((index, taken)) = reader.next().await? else { break };
            let (seq, at) = (taken.seq, taken.created_at);
            scanned_to = Some(at);
            if reader.event(index, taken, self.filter)?.is_none() {
                continue;
            }
            if replayed < MAX_REPLAYED && at >= self.floor.bound_for(&self.logs.datasets()[index]) {
                replayed += 1;
                continue;
            }
            skipped += 1;
            begin[index].get_or_insert(seq);
            newest = newest.or(Some(at));
            oldest = Some(at);
        }
        let all = !reader.has_more();
        // The scan may have stopped early. Usually a replay of too many events is better than a false gap. But events
        // with a rare word may be so far apart that the replay would read the whole log.
        if skipped == 0 && (all || !self.filter.has_texts()) {
            return Ok(None);
        }
        let newest = newest.or(scanned_to);
        // Events that were not scanned are not replayed either.
        let unseen = reader.positions().into_iter().map(|position| if all { 0 } else { position - 1 });
        let begin = begin.into_iter().zip(unseen).zip(&self.after);
        Ok(Some(Gap {
            begin: begin
                .map(|((skipped, unseen), after)| skipped.unwrap_or_default().max(unseen).max(*after))
                .collect(),
            skipped: (all && skipped <= MAX_COUNTED).then_some(skipped),
            newest,
            oldest: oldest.filter(|_| all),
        }))
    }

    /// Counts the matching events after these positions. Returns the number, and whether it scanned all entries.
    pub(super) async fn count(&self, after: &[u64]) -> Result<(i64, bool)> {
        let reader = self.core.shared.theses.direct_reader();
        let selection = select(&reader, &self.call.caller.view, self.filter).await?;
        let mut reader = self.backward(selection, after);
        let mut count = 0;
        for _ in 0..self.max_looked_at() {
            let Some((index, taken)) = reader.next().await? else { break };
            tokio::task::coop::consume_budget().await;
            count += i64::from(reader.event(index, taken, self.filter)?.is_some());
        }
        Ok((count, !reader.has_more()))
    }

    /// Reads backwards from the present to these positions.
    fn backward(&self, selection: Selection, after: &[u64]) -> Backward<'_> {
        let slices = self.logs.datasets().iter().enumerate().map(|(index, dataset)| LogSlice {
            dataset: dataset.clone(),
            before: self.live[index] + 1,
            after: if has_types(dataset, self.filter) { after[index] } else { self.live[index] },
            projected: self.live[index],
            from: i64::MIN,
        });
        Backward::new(&self.core.shared, selection, slices.collect(), PAGE)
    }

    /// Builds the path that lists the events of a gap, from its oldest to its newest. It has no lower bound if the
    /// oldest is outside the history window, since the list refuses such a bound.
    pub(super) async fn path(&self, list: &str, gap: &Gap) -> Result<String> {
        let oldest = match gap.oldest {
            Some(oldest) => oldest,
            None => self.first_unseen().await?,
        };
        let window = self.call.caller.plan.window_start(self.call.now_ms);
        let from = if oldest > window { format!("created_after={}&", format_millis(oldest)) } else { String::new() };
        let to = format_millis(gap.newest.unwrap_or(self.call.now_ms));
        let separator = if list.contains('?') { '&' } else { '?' };
        Ok(format!("{list}{separator}{from}created_before={to}"))
    }

    /// Reads the time of the oldest entry that the client has not received.
    async fn first_unseen(&self) -> Result<i64> {
        let mut oldest = self.call.now_ms;
        for (dataset, after) in self.logs.datasets().iter().zip(&self.after) {
            let body = self.core.shared.log.get(&dataset.to_string(), *after + 1).await?;
            let created_at = body.map(|body| outline(&body)).transpose()?.map(|outline| outline.created_at);
            oldest = oldest.min(created_at.unwrap_or(i64::MAX));
        }
        Ok(oldest)
    }
}

//! Past events, newest first, merged over the datasets of a view: by time, then dataset, then sequence.

use std::collections::VecDeque;

use thesis_proto::{error::ErrorCode, filter::CompiledFilter, v1};

use super::{
    core::Core,
    error::{Error, Result},
    gate::Call,
    writer::decode,
};
use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        entry::{Entry, Sequenced},
        list_cursor::{HistoryPosition, list_name},
    },
    key,
    store::{Consistency, tables},
};

/// Entries that one page looks at, at most; a page of a rare filter is short instead of slow.
const LOOKED_AT: usize = 2_500;

/// What a list of events is asked for, its shape checked.
pub struct Query {
    /// Which events.
    pub filter: CompiledFilter,
    /// All that decides the filter, as given; names the list.
    pub filter_text: String,
    /// Inclusive, unix milliseconds.
    pub created_after: Option<i64>,
    /// Inclusive, unix milliseconds.
    pub created_before: Option<i64>,
    /// Rows of a page.
    pub limit: usize,
    /// Where the page starts.
    pub cursor: Option<String>,
}

/// A page of events.
#[derive(Debug)]
pub struct Page {
    /// The events.
    pub events: Vec<v1::Event>,
    /// Where the next page starts, when there is more to look at.
    pub next_cursor: Option<String>,
}

struct Side {
    dataset: Dataset,
    name: String,
    /// Entries from here down are not read yet.
    before: u64,
    /// Entries down to here, exclusive, are wanted.
    after: u64,
    waiting: VecDeque<Sequenced>,
}

/// Reads the logs of a view backward, merged.
pub struct Backward<'a> {
    core: &'a Core,
    sides: Vec<Side>,
    page: usize,
}

/// The datasets' positions: of each, the sequence number below which nothing was taken yet.
pub type Positions = Vec<u64>;

impl<'a> Backward<'a> {
    /// Reads from `before` (exclusive) down to `after` (exclusive), of each dataset in the order of the view.
    #[must_use]
    pub fn new(core: &'a Core, view: &View, before: &[u64], after: &[u64], page: usize) -> Self {
        let sides = view.datasets().iter().zip(before.iter().zip(after)).map(|(dataset, (before, after))| Side {
            dataset: dataset.clone(),
            name: dataset.to_string(),
            before: *before,
            after: *after,
            waiting: VecDeque::new(),
        });
        Self { core, sides: sides.collect(), page }
    }

    /// Takes the next entry, with its dataset's place in the view.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn next(&mut self) -> Result<Option<(usize, Sequenced)>> {
        for side in &mut self.sides {
            if side.waiting.is_empty() && side.before > side.after + 1 {
                let wanted = usize::try_from(side.before - side.after - 1).unwrap_or(usize::MAX).min(self.page);
                let rows = self.core.shared.log.read_back(&side.name, side.before, wanted).await?;
                for (seq, body) in rows {
                    side.waiting.push_back(Sequenced { seq, entry: decode(body)? });
                }
                if side.waiting.is_empty() {
                    side.before = side.after + 1;
                }
            }
        }
        let newest = self
            .sides
            .iter()
            .enumerate()
            .filter_map(|(index, side)| Some((side.waiting.front()?.entry.created_at, &side.dataset, index)))
            .max()
            .map(|(_, _, index)| index);
        Ok(newest.and_then(|index| {
            let side = &mut self.sides[index];
            let taken = side.waiting.pop_front()?;
            side.before = taken.seq;
            Some((index, taken))
        }))
    }

    /// Reads no further back in the dataset at this place.
    pub fn end(&mut self, index: usize) {
        let side = &mut self.sides[index];
        side.waiting.clear();
        side.after = side.before.saturating_sub(1);
    }

    /// Where reading stands: entries from there up have been taken.
    #[must_use]
    pub fn positions(&self) -> Positions {
        self.sides.iter().map(|side| side.waiting.front().map_or(side.before, |next| next.seq + 1)).collect()
    }

    /// The event that an entry of the dataset at this place is.
    #[must_use]
    pub fn event(&self, index: usize, entry: &Entry) -> Option<v1::Event> {
        convert::entry::event(&self.sides[index].dataset, entry)
    }
}

/// The first sequence number whose entry is younger than `at`, at most `head + 1`.
async fn first_after(core: &Core, dataset: &str, head: u64, at: i64) -> Result<u64> {
    let (mut low, mut high) = (1, head + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let body = core.shared.log.get(dataset, middle).await?;
        let older = match body {
            Some(body) => decode(body)?.created_at <= at,
            None => false,
        };
        if older { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// Lists events.
///
/// # Errors
/// `INVALID_CURSOR`, `HISTORY_LIMIT`, or when the store does not answer.
pub async fn list(core: &Core, call: &Call, query: &Query) -> Result<Page> {
    let view = &call.caller.view;
    let mut floor = call.history_floor(query.created_after.filter(|_| query.cursor.is_none()))?;
    let signer = core.shared.keys.cursor_signer();
    let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    let view_name: Vec<String> = view.datasets().iter().map(Dataset::to_string).collect();
    let (after, before) = (number(query.created_after), number(query.created_before));
    let name = list_name(&["events", &view_name.join(","), &query.filter_text, &after, &before]);
    let before: Positions = match &query.cursor {
        Some(cursor) => {
            let position: Option<HistoryPosition> = signer.read(&name, cursor);
            let whole = position.filter(|position| position.before.len() == view.datasets().len());
            let position = whole.ok_or_else(Error::invalid_cursor)?;
            floor = call.later_floor(position.from, query.created_after.is_some());
            position.before
        }
        None => {
            let mut positions = Vec::new();
            for dataset in view.datasets() {
                let head = core.datasets.refresh(dataset).await?;
                positions.push(match query.created_before {
                    Some(at) if at < call.now_ms => first_after(core, &dataset.to_string(), head, at).await?,
                    _ => head + 1,
                });
            }
            positions
        }
    };
    let bottom = vec![0; before.len()];
    let mut reader = Backward::new(core, view, &before, &bottom, query.limit.max(50) * 2);
    let mut events = Vec::new();
    let mut more = true;
    for looked_at in 0.. {
        if events.len() == query.limit || looked_at == LOOKED_AT {
            break;
        }
        // Reading may never have to wait; others' requests shall not for all of it.
        tokio::task::coop::consume_budget().await;
        let Some((index, taken)) = reader.next().await? else {
            more = false;
            break;
        };
        if taken.entry.created_at < floor.of(&view.datasets()[index]) {
            reader.end(index);
            continue;
        }
        let event = reader.event(index, &taken.entry).filter(|event| query.filter.matches(event));
        events.extend(event);
    }
    let positions = reader.positions();
    more = more && positions.iter().any(|before| *before > 1);
    let next_cursor = more.then(|| {
        signer.sign(
            &name,
            &HistoryPosition { before: positions, from: query.created_after.map_or(0, |_| floor.carried()) },
        )
    });
    Ok(Page { events, next_cursor })
}

/// Reads one event that the caller sees, within its history window.
///
/// # Errors
/// `EVENT_NOT_FOUND`, `HISTORY_LIMIT`, or when the store does not answer.
pub async fn get(core: &Core, call: &Call, id: &str) -> Result<v1::Event> {
    let not_found = || Error::new(ErrorCode::EventNotFound, "there is no such event");
    for dataset in call.caller.view.datasets() {
        let name = dataset.to_string();
        let Some(row) = core.shared.backend.get(&tables::EVENT, &key![&name, id], Consistency::Quorum).await? else {
            continue;
        };
        let body = core.shared.log.get(&name, row.version.unsigned_abs()).await?;
        let entry = decode(body.ok_or_else(|| Error::internal(format!("event {id} points to no entry")))?)?;
        let event = convert::entry::event(dataset, &entry).ok_or_else(not_found)?;
        call.demand_in_history(dataset, entry.created_at)?;
        return Ok(event);
    }
    Err(not_found())
}

//! Past events, newest first, merged over the datasets of a view: by time, then dataset, then sequence.

use std::collections::VecDeque;

use thesis_proto::{error::ErrorCode, filter::CompiledFilter, v1};

use super::{
    core::Core,
    error::{Error, Result},
    gate::Call,
    selection::{Selection, select},
    writer::decode,
};
use crate::{
    convert,
    domain::{
        dataset::Dataset,
        entry::{Entry, Sequenced},
        list_cursor::{HistoryPosition, list_name},
    },
    key,
    store::{Consistency, events::Between, tables},
};

/// Most entries that one page looks at; a page of a filter that no index serves is short instead of slow.
const MOST_LOOKED_AT: usize = 2_500;

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

/// What of a dataset's log is read backward.
pub struct Stretch {
    /// The dataset.
    pub dataset: Dataset,
    /// From here down, exclusive.
    pub before: u64,
    /// Down to here, exclusive.
    pub after: u64,
    /// Nothing older than this, in unix milliseconds.
    pub from: i64,
}

struct Side {
    stretch: Stretch,
    name: String,
    waiting: VecDeque<Sequenced>,
    /// Nothing beyond what waits is wanted.
    done: bool,
}

/// Reads the logs of a view backward, merged.
pub struct Backward<'a> {
    core: &'a Core,
    selection: Selection,
    sides: Vec<Side>,
    page: usize,
}

/// The datasets' positions: of each, the sequence number below which nothing was taken yet.
pub type Positions = Vec<u64>;

impl<'a> Backward<'a> {
    /// Reads what is selected of these stretches, a page of each at once.
    #[must_use]
    pub fn new(core: &'a Core, selection: Selection, stretches: Vec<Stretch>, page: usize) -> Self {
        let side = |stretch: Stretch| Side {
            name: stretch.dataset.to_string(),
            stretch,
            waiting: VecDeque::new(),
            done: false,
        };
        Self { core, selection, sides: stretches.into_iter().map(side).collect(), page }
    }

    /// Takes the next entry, with its dataset's place in the view.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn next(&mut self) -> Result<Option<(usize, Sequenced)>> {
        for side in &mut self.sides {
            if side.waiting.is_empty() && !side.done {
                side.fill(self.core, &self.selection, self.page).await?;
            }
        }
        let newest = self
            .sides
            .iter()
            .enumerate()
            .filter_map(|(index, side)| Some((side.waiting.front()?.entry.created_at, &side.stretch.dataset, index)))
            .max()
            .map(|(_, _, index)| index);
        Ok(newest.and_then(|index| {
            let side = &mut self.sides[index];
            let taken = side.waiting.pop_front()?;
            side.stretch.before = taken.seq;
            Some((index, taken))
        }))
    }

    /// Where reading stands: entries from there up have been taken, or are not wanted.
    #[must_use]
    pub fn positions(&self) -> Positions {
        self.sides.iter().map(|side| side.waiting.front().map_or(side.stretch.before, |next| next.seq + 1)).collect()
    }

    /// Whether there may be more to take.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.sides.iter().any(|side| !side.done || !side.waiting.is_empty())
    }

    /// The event that an entry of the dataset at this place is.
    #[must_use]
    pub fn event(&self, index: usize, entry: &Entry) -> Option<v1::Event> {
        convert::entry::event(&self.sides[index].stretch.dataset, entry)
    }
}

impl Side {
    /// Reads the next entries.
    async fn fill(&mut self, core: &Core, selection: &Selection, page: usize) -> Result<()> {
        let Stretch { before, after, from, .. } = self.stretch;
        let wanted = usize::try_from(before.saturating_sub(after + 1)).unwrap_or(usize::MAX).min(page);
        let log = &core.shared.log;
        let (found, rows) = match selection {
            Selection::All => {
                let rows = log.read_back(&self.name, before, wanted).await?;
                (rows.len(), rows)
            }
            Selection::Scopes(scopes) => {
                let between = Between { after, before };
                let seqs = core.shared.events.positions(&self.name, scopes, between, true, wanted).await?;
                (seqs.len(), log.get_many(&self.name, &seqs).await?)
            }
        };
        self.done = found < page;
        for (seq, body) in rows {
            let entry = decode(body)?;
            if entry.created_at < from {
                self.done = true;
                break;
            }
            self.waiting.push_back(Sequenced { seq, entry });
        }
        Ok(())
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
    let stretches = view.datasets().iter().zip(before).map(|(dataset, before)| Stretch {
        dataset: dataset.clone(),
        before,
        after: 0,
        from: floor.of(dataset),
    });
    let selection = select(&core.shared, view, &query.filter).await?;
    // Of what an index names most matches; of a whole log perhaps little.
    let page = if selection == Selection::All { query.limit.max(50) * 2 } else { query.limit + 1 };
    let mut reader = Backward::new(core, selection, stretches.collect(), page);
    let mut events = Vec::new();
    for _ in 0..MOST_LOOKED_AT {
        if events.len() == query.limit {
            break;
        }
        // Reading may never have to wait; others' requests shall not for all of it.
        tokio::task::coop::consume_budget().await;
        let Some((index, taken)) = reader.next().await? else { break };
        let event = reader.event(index, &taken.entry).filter(|event| query.filter.matches(event));
        events.extend(event);
    }
    let next_cursor = reader.has_more().then(|| {
        let from = query.created_after.map_or(0, |_| floor.carried());
        let position = HistoryPosition { before: reader.positions(), from };
        signer.sign(&name, &position)
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

//! The recent events that match a webhook's types and filters, or other filters that the user tries.

use askama::Template;
use axum::extract::Path;
use prost_types::Timestamp;
use thesis_proto::{error::ApiError, filter::CompiledFilter, names::event_type_name, v1};

use super::{
    super::filters::{FilterFields, TypeBox},
    Workspace,
};
use crate::{
    Page,
    failure::Failed,
    form::Faults,
    page_query::PageQuery,
    view::{Layout, cut, group_digits, render},
};

/// A scan covers at most this many events.
const MAX_EVENTS: usize = 1_000;
/// Events per call of core.
const LIMIT: i32 = 100;
/// Limit for the calls of a scan, because core's pages may be short.
const MAX_PAGES: usize = 20;
/// The page shows at most this many matching events.
const MAX_SHOWN: usize = 25;

/// The result of a scan over the newest events.
#[derive(Default)]
struct ScanResult {
    scanned: usize,
    matched: usize,
    /// The newest matching events.
    rows: Vec<v1::Event>,
    /// The time of the oldest scanned event.
    oldest: Option<Timestamp>,
}

impl ScanResult {
    fn add(&mut self, filter: &CompiledFilter, event: v1::Event) {
        self.scanned += 1;
        self.oldest = event.created_at;
        if filter.matches(&event) {
            self.matched += 1;
            if self.rows.len() < MAX_SHOWN {
                self.rows.push(event);
            }
        }
    }
}

/// Scans the newest events of the environment.
async fn scan_events(workspace: &Workspace, filter: &CompiledFilter) -> Result<ScanResult, Failed> {
    let (mut scan, mut cursor) = (ScanResult::default(), None);
    for _ in 0..MAX_PAGES {
        let message =
            v1::ListEventsRequest { limit: Some(LIMIT), cursor: cursor.take(), ..v1::ListEventsRequest::default() };
        let page = workspace.core().events.list_events(workspace.request(message)).await?.into_inner();
        for event in page.data.into_iter().take(MAX_EVENTS - scan.scanned) {
            scan.add(filter, event);
        }
        cursor = page.next_cursor;
        if cursor.is_none() || scan.scanned == MAX_EVENTS {
            break;
        }
    }
    Ok(scan)
}

#[derive(Template)]
#[template(path = "matches.html")]
struct MatchesPage {
    layout: Layout,
    workspace: Workspace,
    webhook_path: String,
    url: String,
    /// The names of the webhook's filters, with their values.
    filter_facts: Vec<(&'static str, String)>,
    scanned: String,
    matched: String,
    /// The time of the oldest scanned event.
    oldest: Option<Timestamp>,
    rows: Vec<v1::Event>,
    is_whole: bool,
    fields: FilterFields,
    boxes: Vec<TypeBox>,
    /// True if the page shows other filters than those of the webhook.
    is_tried: bool,
    faults: Faults,
}

/// The parameters of the filters to try.
const TRIED: &[&str] = &["types", "token", "handle", "chain", "text"];

/// The page cuts the values of a filter after this many characters.
const MAX_CHARACTERS: usize = 1_000;

/// The webhook's types and filters as names and values.
fn filter_facts(types: &[v1::EventType], filters: &v1::EventFilters) -> Vec<(&'static str, String)> {
    let types: Vec<_> = types.iter().map(|kind| event_type_name(*kind)).collect();
    let given = [
        ("Tokens", &filters.token),
        ("Profiles", &filters.handle),
        ("Chains", &filters.chain),
        ("Texts", &filters.text),
    ];
    let given = given.into_iter().filter(|(_, values)| !values.is_empty());
    let events = [("Events", types.join(", "))];
    let given = given.map(|(name, values)| (name, cut(&values.join(", "), MAX_CHARACTERS)));
    events.into_iter().chain(given).collect()
}

/// Compiles the filters of a form, which may be wrong.
fn compile(fields: &FilterFields) -> Result<(CompiledFilter, Faults), Failed> {
    let types = fields.event_types().into_iter().filter_map(|number| v1::EventType::try_from(number).ok());
    let compiled = CompiledFilter::new(&types.collect::<Vec<_>>(), fields.filters().as_ref());
    Faults::of_query(compiled.map_err(|faults| ApiError::validation(&faults).to_status("")))
}

pub(super) async fn show(
    workspace: Workspace,
    Path((_, _, id)): Path<(String, String, String)>,
    query: PageQuery,
) -> Page {
    let message = v1::GetWebhookRequest { id };
    let answer = workspace.core().webhooks.get_webhook(workspace.request(message)).await?.into_inner();
    let webhook = answer.webhook.unwrap_or_default();
    let types: Vec<v1::EventType> = webhook.events().collect();
    let is_tried = query.has_any(TRIED);
    let (filter, faults, fields) = if is_tried {
        let fields = FilterFields::of_query(&query);
        let (filter, faults) = compile(&fields)?;
        (filter, faults, fields)
    } else {
        // Core has validated the filters.
        let filter = CompiledFilter::new(&types, webhook.filters.as_ref()).map_err(|_| ApiError::internal())?;
        let own = FilterFields::of(&types, webhook.filters.as_ref());
        // Filters that the form cannot hold are not tried with a change.
        let fields = if own.holds(webhook.filters.as_ref()) { own } else { FilterFields::of(&types, None) };
        (filter, Faults::none(), fields)
    };
    let scan = if faults.whole().is_some() { ScanResult::default() } else { scan_events(&workspace, &filter).await? };
    let page = MatchesPage {
        layout: workspace.layout("What its filters match"),
        webhook_path: workspace.webhook_path(&webhook.id),
        filter_facts: filter_facts(&types, &webhook.filters.unwrap_or_default()),
        url: webhook.url,
        scanned: group_digits(scan.scanned),
        matched: group_digits(scan.matched),
        oldest: scan.oldest,
        is_whole: scan.rows.len() == scan.matched,
        rows: scan.rows,
        boxes: fields.boxes(),
        fields,
        is_tried,
        faults,
        workspace,
    };
    render(page.faults.status(), &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_listed_by_name() {
        let filters = v1::EventFilters {
            token: vec!["$RUN".to_owned(), "WIF".to_owned()],
            chain: vec!["solana".to_owned()],
            ..v1::EventFilters::default()
        };
        let shown = filter_facts(&[v1::EventType::ThesisCreated], &filters);
        let expected = [("Events", "thesis.created"), ("Tokens", "$RUN, WIF"), ("Chains", "solana")];
        assert_eq!(shown, expected.map(|(name, values)| (name, values.to_owned())));
    }
}

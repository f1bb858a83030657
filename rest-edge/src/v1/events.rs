//! Events: history and single ones.

use std::mem::take;

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, v1};

use crate::{
    answer::{Answer, Failure, json, list_page},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::{Route, route},
};

const LIST: &[Param] = &[
    Param::TYPES,
    Param::TOKENS,
    Param::HANDLES,
    Param::CHAINS,
    Param::SEARCHES,
    Param::new("created_after", Kind::Time, "Inclusive lower bound of the event's `created_at`"),
    Param::new("created_before", Kind::Time, "Inclusive upper bound of the event's `created_at`"),
    Param::LIMIT,
    Param::CURSOR,
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/events", "EventService/ListEvents", list)
            .named(
                "listEvents",
                "Events",
                "Lists past events, newest first. A page may be short, even empty, while `has_more` is true.",
            )
            .about(
                "Lists events within the plan's history window, newest first. An event must match every filter \
                 given; values of one filter are alternatives. Filters apply to the event as it was, not to its \
                 profile as it is now. `limit` rows make a page; pass `next_cursor` as `cursor`, with the same \
                 filters, for the next one, until `has_more` is false. A page may hold fewer rows than `limit`, \
                 even none, while `has_more` is true.\n\n\
                 A `created_after` earlier than the window is 403 `HISTORY_LIMIT`.",
            )
            .needs(Some("events:read"), "standard")
            .fails(&[ErrorCode::HistoryLimit])
            .query(LIST)
            .answers::<json::EventList<'_>>(200),
        route!(GET, "/v1/events/{id}", "EventService/GetEvent", get)
            .named("getEvent", "Events", "Reads one event.")
            .about(
                "An event stays as it was sent, also when its thesis is later edited or deleted. An event older \
                 than the plan's history window is 403 `HISTORY_LIMIT`. The event of a webhook's test send is in \
                 no log: 404.",
            )
            .needs(Some("events:read"), "standard")
            .fails(&[ErrorCode::EventNotFound, ErrorCode::HistoryLimit])
            .path_parameter("The event, `evt_…`")
            .path_example("evt_9qvqwckq305sg02k5efh5hcm")
            .answers::<json::Event<'_>>(200)
            .tagged(),
    ]
}

async fn list(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let request = v1::ListEventsRequest {
        types: query.event_types("types"),
        filters: query.filters(),
        created_after: query.time("created_after"),
        created_before: query.time("created_before"),
        limit: query.integer("limit"),
        cursor: query.text("cursor"),
    };
    call.add_unread(query.unread());
    let (metadata, page, extensions) = edge.core.events.list_events(call.request(request)).await?.into_parts();
    let end = (page.next_cursor.as_deref(), page.has_more);
    list_page(&metadata, &extensions, end, || json::EventList::from(&page))
}

async fn get(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let (metadata, answer, _) =
        edge.core.events.get_event(call.request(v1::GetEventRequest { id })).await?.into_parts();
    let event = answer.event.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Event::from(&event))
}

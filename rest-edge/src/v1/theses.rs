//! Theses: lists and single ones.

use std::mem::take;

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, names, v1};

use crate::{
    answer::{Answer, Failure, json, list_page},
    call::Call,
    context::Context,
    input::{Kind, Param, enum_texts},
    route::{Route, route},
};

const LIST: &[Param] = &[
    Param::new("profile", Kind::Text(1, 200), "`fp_` id, `@handle` or upstream user id of the author"),
    Param::new("handle", Kind::Text(1, 200), "Handle of the author, with or without `@`"),
    Param::new(
        "token",
        Kind::Text(1, 200),
        "`tk_` id, address, `chain:address`, `$SYMBOL` or `SYMBOL`; a symbol matches every token that has it unless \
         `chain` narrows it",
    ),
    Param::new("chain", Kind::Text(1, 32), "One chain; test keys use `sandbox`"),
    Param::new("created_after", Kind::Time, "Inclusive lower bound"),
    Param::new("created_before", Kind::Time, "Inclusive upper bound"),
    Param::new(
        "since",
        Kind::Text(1, 200),
        "Relative lower bound such as `90s`, `30m`, `1h`, `7d`; the later of it and `created_after` wins",
    ),
    Param::new("sort", Kind::OneOf(|| enum_texts(names::THESIS_SORTS)), "Order; `created_at_desc` unless given"),
    Param::LIMIT,
    Param::CURSOR,
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/theses", "ThesisService/ListTheses", list)
            .named("listTheses", "Theses", "Lists theses; filters combine freely.")
            .about(
                "Filters combine freely, and a thesis must match all of them. A filter that names an unknown \
                 profile or token gives an empty list. A symbol means every token that has it, up to 50; \
                 `chain` or an address narrows it. `limit` rows make a page; pass `next_cursor` as `cursor`, with \
                 the same filters, for the next one, until `has_more` is false.\n\n\
                 A bound earlier than the plan's history window is 403 `HISTORY_LIMIT`; without one the list \
                 begins at the window. Sandbox data is never cut off by the window. With `likes_desc` theses \
                 without a count come last.",
            )
            .needs(Some("theses:read"), "standard")
            .fails(&[ErrorCode::FeatureDisabled, ErrorCode::HistoryLimit])
            .query(LIST)
            .answers::<json::ThesisList<'_>>(200),
        route!(GET, "/v1/theses/{id}", "ThesisService/GetThesis", get)
            .named("getThesis", "Theses", "Reads one thesis.")
            .about(
                "Returns the thesis with its profile and token as they are now. A thesis older than the plan's \
                 history window is 403 `HISTORY_LIMIT`. A thesis of another project or of the other environment \
                 does not exist: 404.",
            )
            .needs(Some("theses:read"), "standard")
            .fails(&[ErrorCode::ThesisNotFound, ErrorCode::FeatureDisabled, ErrorCode::HistoryLimit])
            .path_parameter("The thesis, `th_…`")
            .path_example("th_9qvqwckq305sg02k5efh5hcm")
            .answers::<json::Thesis<'_>>(200)
            .tagged(),
    ]
}

async fn list(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let request = v1::ListThesesRequest {
        profile: query.text("profile"),
        handle: query.text("handle"),
        token: query.text("token"),
        chain: query.text("chain"),
        created_after: query.time("created_after"),
        created_before: query.time("created_before"),
        since: query.text("since"),
        sort: query.one_of("sort", names::parse_thesis_sort).unwrap_or_default().into(),
        limit: query.integer("limit"),
        cursor: query.text("cursor"),
    };
    call.add_unread(query.unread());
    let (metadata, page, extensions) = edge.core.theses.list_theses(call.request(request)).await?.into_parts();
    let end = (page.next_cursor.as_deref(), page.has_more);
    list_page(&metadata, &extensions, end, || json::ThesisList::from(&page))
}

async fn get(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let (metadata, answer, _) =
        edge.core.theses.get_thesis(call.request(v1::GetThesisRequest { id })).await?.into_parts();
    let thesis = answer.thesis.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Thesis::from(&thesis))
}

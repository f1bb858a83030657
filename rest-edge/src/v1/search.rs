//! Search across theses, profiles and tokens.

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, names, v1};
use tonic::metadata::MetadataMap;

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param, enum_texts},
    route::{Route, route},
};

const TAG: &str = "Search";

const SEARCH: &[Param] = &[
    Param::required(
        "q",
        Kind::Text(1, 512),
        "What to find: words are AND-ed; also `\"a phrase\"`, `-word`, `OR`, `prefix*`",
    )
    .example("run"),
    Param::new("types", Kind::SomeOf(|| enum_texts(names::SEARCH_TYPES)), "Comma-separated kinds; all unless given"),
    Param::new("chain", Kind::Text(1, 32), "One chain; test keys use `sandbox`"),
    Param::new("token", Kind::Text(1, 200), "`tk_` id, address, `chain:address`, `$SYMBOL` or `SYMBOL`"),
    Param::new("handle", Kind::Text(1, 200), "Handle, with or without `@`"),
    Param::new("created_after", Kind::Time, "Inclusive lower bound"),
    Param::new("created_before", Kind::Time, "Inclusive upper bound"),
    Param::new("sort", Kind::OneOf(|| enum_texts(names::SEARCH_SORTS)), "Order of theses; `relevance` unless given"),
    Param::new("limit", Kind::Integer(1, 50, 10), "Results of each kind"),
];

const SEMANTIC: &[Param] = &[
    Param::required("query", Kind::Text(1, 500), "What to find"),
    Param::new("limit", Kind::Integer(1, 50, 10), "Results of each kind"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/search", "SearchService/Search", search)
            .named("search", TAG, "Searches theses, profiles and tokens.")
            .about(
                "Words are AND-ed; `\"a phrase\"`, `-word`, `OR` and `prefix*` are understood; a query that \
                 cannot be read is 422. `limit` counts for each kind of result; there are no further pages. \
                 `token` and `chain` narrow theses and tokens, `handle` narrows theses and profiles, and the times \
                 narrow theses. Theses are searched within the plan's history window, and a bound before \
                 it is 403 `HISTORY_LIMIT`.",
            )
            .needs(Some("search:read"), "heavy")
            .fails(&[ErrorCode::HistoryLimit])
            .query(SEARCH)
            .answers::<json::SearchResult<'_>>(200),
        route!(POST, "/v1/search/semantic", "SearchService/SemanticSearch", semantic)
            .named("searchSemantically", TAG, "Searches by meaning. Disabled: always 404 `FEATURE_DISABLED`.")
            .about(
                "This feature is declared but disabled: every call is 404 `FEATURE_DISABLED`. Once it is enabled \
                 it will answer as the example shows. `Idempotency-Key` has no effect here.",
            )
            .needs(Some("search:read"), "heavy")
            .fails(&[ErrorCode::FeatureDisabled])
            .body("SemanticSearch", SEMANTIC)
            .never_repeated()
            .answers::<json::SearchResult<'_>>(200),
    ]
}

async fn search(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let request = v1::SearchRequest {
        q: query.text("q").unwrap_or_default(),
        types: query.some_of("types", names::parse_search_type),
        chain: query.text("chain"),
        token: query.text("token"),
        handle: query.text("handle"),
        created_after: query.time("created_after"),
        created_before: query.time("created_before"),
        sort: query.one_of("sort", names::parse_search_sort).unwrap_or_default().into(),
        limit: query.integer("limit"),
    };
    call.add_unread(query.unread());
    let (metadata, answer, _) = edge.core.search.search(call.request(request)).await?.into_parts();
    search_response(&metadata, answer.result)
}

async fn semantic(edge: &Context, call: &Call) -> Answer {
    let mut fields = call.fields()?;
    let request =
        v1::SemanticSearchRequest { query: fields.text("query").unwrap_or_default(), limit: fields.integer("limit") };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.search.semantic_search(call.request(request)).await?.into_parts();
    search_response(&metadata, answer.result)
}

fn search_response(metadata: &MetadataMap, result: Option<v1::SearchResult>) -> Answer {
    let result = result.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, metadata, &json::SearchResult::from(&result))
}

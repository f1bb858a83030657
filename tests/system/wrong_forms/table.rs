//! Which form each parameter and field has.

/// The form of a parameter or field, which decides which values are wrong.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// Text with its bounds in characters.
    Text(usize, usize),
    /// Text that must be there.
    Needed(usize),
    /// Text or null.
    OrNull(usize),
    /// A handle of a test thesis.
    NewHandle,
    /// A symbol of a test thesis.
    NewSymbol,
    /// True or false.
    Flag,
    /// An ISO 8601 time.
    Time,
    /// A time within the plan's history window.
    AsOf,
    /// Such a time that must be there.
    NeededTime,
    /// A day.
    Date,
    /// Such a time that must be there, and not in the future.
    PastTime,
    /// The status of deliveries that are sent again.
    FinalStatus,
    /// A whole number with its bounds.
    Integer(i32, i32),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// Some of these texts, comma-separated.
    SomeOf(&'static [&'static str]),
    /// References, comma-separated.
    References(Reference),
    /// Such as `90s`.
    Span,
    /// `max` or a number.
    Speed,
    /// The words of a search.
    Words,
    /// Searches in the text of an event. The parameter is repeated for each.
    Searches,
    /// A cursor of a list or a stream.
    Cursor,
    /// An id in a path; a wrong one names nothing.
    Id(&'static str),
    /// A reference in a path with the characters it may have, and the code for a missing one.
    Ref(usize, &'static str),
    /// The types that a webhook wants.
    Events,
    /// A webhook's filters.
    Filters,
    /// A webhook's address.
    Url,
    /// The status that a webhook is given.
    Status,
    /// A webhook's own headers, with true if null removes one.
    Headers(bool),
    /// The content of a webhook's deliveries.
    Payload,
    /// The metric of an alert, which must be there.
    Metric,
    /// A number or null.
    Number,
    /// A span of an alert.
    AlertSpan,
    /// A ticket, which no request has beside its key.
    Ticket,
    /// `Idempotency-Key`
    IdempotencyKey,
    /// `Last-Event-ID`
    LastEventId,
    /// `If-None-Match`, and headers about parts: every text is allowed
    Tags,
    /// Of an operation that is off, for every value.
    Disabled,
}

/// The rows that a list of references names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    Token,
    Handle,
    Chain,
}

/// A parameter or field.
pub(super) struct Row {
    pub(super) place: &'static str,
    pub(super) name: &'static str,
    pub(super) form: Form,
}

const fn query(name: &'static str, form: Form) -> Row {
    Row { place: "query", name, form }
}

const fn path(name: &'static str, form: Form) -> Row {
    Row { place: "path", name, form }
}

const fn body(name: &'static str, form: Form) -> Row {
    Row { place: "body", name, form }
}

const fn header(name: &'static str, form: Form) -> Row {
    Row { place: "header", name, form }
}

pub(super) const EVENT_TYPES: &[&str] =
    &["thesis.created", "profile.updated", "token.activity", "token.thesis_velocity", "alert.firing", "alert.resolved"];

pub(super) const METRICS: &[&str] =
    &["thesis_count_5m", "thesis_count_1h", "thesis_count_24h", "unique_authors_24h", "change_pct"];

const TAGS: Row = header("If-None-Match", Form::Tags);
const KEY: Row = header("Idempotency-Key", Form::IdempotencyKey);
const LIMIT: Row = query("limit", Form::Integer(1, 100));
const CURSOR: Row = query("cursor", Form::Cursor);
const CHAIN: Row = query("chain", Form::Text(1, 32));
const AFTER: Row = query("created_after", Form::Time);
const BEFORE: Row = query("created_before", Form::Time);
const AS_OF: Row = query("as_of", Form::AsOf);
const TYPES: Row = query("types", Form::SomeOf(EVENT_TYPES));
const TOKENS: Row = query("token", Form::References(Reference::Token));
const HANDLES: Row = query("handle", Form::References(Reference::Handle));
const CHAINS: Row = query("chain", Form::References(Reference::Chain));
const SEARCHES: Row = query("text", Form::Searches);
const PROFILE: Row = path("ref", Form::Ref(80, "PROFILE_NOT_FOUND"));
const TOKEN: Row = path("ref", Form::Ref(200, "TOKEN_NOT_FOUND"));
const WEBHOOK: Row = path("id", Form::Id("WEBHOOK_NOT_FOUND"));
const ALERT: Row = path("id", Form::Id("ALERT_NOT_FOUND"));

/// Every operation with parameters or fields.
pub(super) const TABLE: &[(&str, &[Row])] = &[
    ("GET /v1/me", &[TAGS]),
    ("GET /v1/openapi.json", &[TAGS]),
    ("GET /v1/asyncapi.json", &[TAGS]),
    (
        "GET /v1/profiles",
        &[
            query("id", Form::Text(1, 64)),
            query("handle", Form::Text(1, 64)),
            query("upstream_user_id", Form::Text(1, 64)),
            TAGS,
        ],
    ),
    ("GET /v1/profiles/{ref}", &[PROFILE, TAGS]),
    ("GET /v1/profiles/{ref}/wallets", &[path("ref", Form::Disabled)]),
    (
        "GET /v1/theses",
        &[
            query("profile", Form::Text(1, 200)),
            query("handle", Form::Text(1, 200)),
            query("token", Form::Text(1, 200)),
            CHAIN,
            AFTER,
            BEFORE,
            query("since", Form::Span),
            query("sort", Form::OneOf(&["created_at_desc", "created_at_asc", "likes_desc"])),
            LIMIT,
            CURSOR,
        ],
    ),
    ("GET /v1/theses/{id}", &[path("id", Form::Id("THESIS_NOT_FOUND")), TAGS]),
    (
        "POST /v1/verify/thesis",
        &[
            body("handle", Form::Text(1, 64)),
            body("profile_id", Form::Text(1, 64)),
            body("token", Form::Needed(140)),
            body("chain", Form::Text(1, 32)),
            body("created_after", Form::NeededTime),
            body("created_before", Form::Time),
            body("contains", Form::Text(0, 500)),
            body("receipt", Form::Flag),
        ],
    ),
    ("GET /v1/theses/{id}/receipt", &[path("id", Form::Id("THESIS_NOT_FOUND"))]),
    (
        "GET /v1/archive",
        &[
            query("kind", Form::OneOf(&["theses", "events", "token_hours", "changes"])),
            query("from", Form::Date),
            query("to", Form::Date),
            LIMIT,
            CURSOR,
        ],
    ),
    (
        "GET /v1/archive/{date}/{file}",
        &[
            path("date", Form::Id("ARCHIVE_FILE_NOT_FOUND")),
            path("file", Form::Id("ARCHIVE_FILE_NOT_FOUND")),
            header("Range", Form::Tags),
            header("If-Range", Form::Tags),
            TAGS,
        ],
    ),
    (
        "GET /v1/archive/{date}/{file}/receipt",
        &[path("date", Form::Id("ARCHIVE_FILE_NOT_FOUND")), path("file", Form::Id("ARCHIVE_FILE_NOT_FOUND"))],
    ),
    ("GET /v1/log/{dataset}/checkpoint", &[path("dataset", Form::Id("ROUTE_NOT_FOUND")), TAGS]),
    (
        "GET /v1/log/{dataset}/tile/{tile}",
        &[path("dataset", Form::Id("ROUTE_NOT_FOUND")), path("tile", Form::Id("ROUTE_NOT_FOUND")), TAGS],
    ),
    ("GET /v1/tokens/{ref}", &[TOKEN, CHAIN, AS_OF, TAGS]),
    ("GET /v1/tokens/{ref}/activity", &[TOKEN, CHAIN, query("recent", Form::Integer(1, 50)), AS_OF]),
    ("GET /v1/tokens/{ref}/thesis-velocity", &[TOKEN, CHAIN, AS_OF]),
    (
        "GET /v1/search",
        &[
            query("q", Form::Words),
            query("types", Form::SomeOf(&["theses", "profiles", "tokens"])),
            CHAIN,
            query("token", Form::Text(1, 200)),
            query("handle", Form::Text(1, 200)),
            AFTER,
            BEFORE,
            query("sort", Form::OneOf(&["relevance", "created_at_desc"])),
            query("limit", Form::Integer(1, 50)),
        ],
    ),
    ("POST /v1/search/semantic", &[body("query", Form::Disabled), body("limit", Form::Disabled)]),
    (
        "POST /v1/test/theses",
        &[body("handle", Form::NewHandle), body("token", Form::NewSymbol), body("text", Form::Needed(2000)), KEY],
    ),
    ("GET /v1/events", &[TYPES, TOKENS, HANDLES, CHAINS, SEARCHES, AFTER, BEFORE, LIMIT, CURSOR]),
    ("GET /v1/events/{id}", &[path("id", Form::Id("EVENT_NOT_FOUND")), TAGS]),
    (
        "GET /v1/events/stream",
        &[
            TYPES,
            TOKENS,
            HANDLES,
            CHAINS,
            SEARCHES,
            query("ticket", Form::Ticket),
            query("from_cursor", Form::Cursor),
            query("from", Form::Time),
            query("to", Form::Time),
            query("speed", Form::Speed),
            header("Last-Event-ID", Form::LastEventId),
        ],
    ),
    ("GET /v1/stream", &[query("ticket", Form::Ticket)]),
    ("POST /v1/stream/tickets", &[KEY]),
    ("GET /v1/webhooks", &[LIMIT, CURSOR, query("status", Form::OneOf(&["enabled", "disabled", "disabled_failing"]))]),
    (
        "POST /v1/webhooks",
        &[
            body("url", Form::Url),
            body("events", Form::Events),
            body("filters", Form::Filters),
            body("description", Form::OrNull(500)),
            body("headers", Form::Headers(false)),
            body("payload", Form::Payload),
            KEY,
        ],
    ),
    ("GET /v1/webhooks/{id}", &[WEBHOOK, TAGS]),
    (
        "PATCH /v1/webhooks/{id}",
        &[
            WEBHOOK,
            body("url", Form::Url),
            body("events", Form::Events),
            body("filters", Form::Filters),
            body("description", Form::OrNull(500)),
            body("status", Form::Status),
            body("headers", Form::Headers(true)),
            body("payload", Form::Payload),
            KEY,
        ],
    ),
    ("POST /v1/webhooks/{id}/rotate-secret", &[WEBHOOK, KEY]),
    ("POST /v1/webhooks/{id}/test", &[WEBHOOK, KEY]),
    (
        "POST /v1/webhooks/{id}/replay",
        &[WEBHOOK, body("since", Form::PastTime), body("status", Form::FinalStatus), KEY],
    ),
    ("GET /v1/webhooks/{id}/insight", &[WEBHOOK]),
    ("POST /v1/webhook-deliveries/{id}/replay", &[path("id", Form::Id("DELIVERY_NOT_FOUND")), KEY]),
    ("DELETE /v1/webhooks/{id}", &[WEBHOOK]),
    ("GET /v1/alerts", &[LIMIT, CURSOR]),
    (
        "POST /v1/alerts",
        &[
            body("name", Form::Needed(100)),
            body("token", Form::Needed(140)),
            body("metric", Form::Metric),
            body("above", Form::Number),
            body("below", Form::Number),
            body("recover", Form::Number),
            body("for", Form::AlertSpan),
            body("keep_firing_for", Form::AlertSpan),
            KEY,
        ],
    ),
    ("GET /v1/alerts/{id}", &[ALERT, TAGS]),
    (
        "PATCH /v1/alerts/{id}",
        &[
            ALERT,
            body("name", Form::Text(1, 100)),
            body("above", Form::Number),
            body("below", Form::Number),
            body("recover", Form::Number),
            body("for", Form::AlertSpan),
            body("keep_firing_for", Form::AlertSpan),
            KEY,
        ],
    ),
    ("DELETE /v1/alerts/{id}", &[ALERT]),
    (
        "GET /v1/webhooks/{id}/deliveries",
        &[
            WEBHOOK,
            LIMIT,
            CURSOR,
            query("status", Form::OneOf(&["pending", "delivered", "failed", "retrying"])),
            query("event_type", Form::OneOf(EVENT_TYPES)),
            query("event_id", Form::Text(1, 64)),
        ],
    ),
];

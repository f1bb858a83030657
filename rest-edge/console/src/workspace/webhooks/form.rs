//! The form of a webhook.

use prost_types::FieldMask;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    names::parse_webhook_payload,
    time::{from_millis, to_millis},
    v1,
};
use tonic::Status;

use crate::{
    failure::Failed,
    form::Faults,
    workspace::filters::{FilterFields, TypeBox},
};

const CHANGED: [&str; 6] = ["url", "description", "events", FILTERS, HEADERS, "payload"];
const FILTERS: &str = "filters";
const HEADERS: &str = "headers";

/// The typed fields of a webhook's form.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TypedWebhook {
    url: String,
    description: String,
    /// The names of the ticked event types.
    events: Vec<String>,
    /// None if the form does not show the filters.
    token: Option<String>,
    handle: String,
    chain: String,
    text: String,
    /// One line for each header to set, `Name: value`. A line without a value removes the header. No page shows the
    /// values again.
    headers: String,
    /// `thin` if the box is checked.
    payload: String,
    /// The idempotency token of the form.
    pub(super) once: String,
    /// `updated_at` of the webhook that the form showed, in Unix milliseconds; 0 for a new one.
    unchanged_since: i64,
}

impl TypedWebhook {
    fn filter_fields(&self) -> FilterFields {
        FilterFields {
            types: self.events.clone(),
            token: self.token.clone().unwrap_or_default(),
            handle: self.handle.clone(),
            chain: self.chain.clone(),
            text: self.text.clone(),
        }
    }

    /// Trims the URL, because copied text often has spaces.
    fn url(&self) -> Option<String> {
        Some(self.url.trim().to_owned())
    }

    /// The description; none if the field is empty.
    fn description(&self) -> Option<String> {
        Some(self.description.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn headers(&self) -> Vec<v1::WebhookHeader> {
        let lines = self.headers.lines().map(str::trim).filter(|line| !line.is_empty());
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = Some(value.trim()).filter(|value| !value.is_empty()).map(str::to_owned);
            v1::WebhookHeader { name: name.trim().to_owned(), value }
        };
        lines.map(header).collect()
    }

    fn payload(&self) -> v1::WebhookPayload {
        parse_webhook_payload(&self.payload).unwrap_or(v1::WebhookPayload::Full)
    }

    /// The request that creates the webhook.
    pub(super) fn new_webhook(&self) -> v1::CreateWebhookRequest {
        let filter = self.filter_fields();
        v1::CreateWebhookRequest {
            url: self.url(),
            events: filter.event_types(),
            filters: filter.filters(),
            description: self.description(),
            headers: self.headers(),
            payload: self.payload().into(),
        }
    }

    /// The request that changes the webhook. Core refuses it if the webhook has changed since the form was rendered.
    pub(super) fn changes(&self, id: &str) -> v1::UpdateWebhookRequest {
        let filter = self.filter_fields();
        let headers = self.headers();
        let changed = CHANGED.into_iter().filter(|field| match *field {
            FILTERS => self.token.is_some(),
            HEADERS => !headers.is_empty(),
            _ => true,
        });
        v1::UpdateWebhookRequest {
            id: id.to_owned(),
            update_mask: Some(FieldMask { paths: changed.map(str::to_owned).collect() }),
            url: self.url(),
            events: filter.event_types(),
            filters: filter.filters(),
            description: self.description(),
            headers,
            payload: self.payload().into(),
            unchanged_since: Some(from_millis(self.unchanged_since)),
            ..v1::UpdateWebhookRequest::default()
        }
    }
}

/// Reads the faults of a webhook's form from core's status.
///
/// # Errors
/// As [`Faults::of`].
pub(super) fn faults_of(status: &Status) -> Result<Faults, Failed> {
    let error = ApiError::from_status(status);
    if error.code != ErrorCode::WebhookUrlForbidden {
        return Faults::of(status);
    }
    // Core reports this fault of the URL by a separate code.
    let fault = FieldError::new("url", error.message);
    Faults::of(&ApiError::validation(&[fault]).to_status(""))
}

pub(super) struct WebhookForm {
    pub(super) url: String,
    pub(super) description: String,
    pub(super) filter: FilterFields,
    pub(super) boxes: Vec<TypeBox>,
    /// True if deliveries have the thin payload.
    pub(super) is_thin: bool,
    /// True if the form can edit the filters.
    pub(super) shows_filters: bool,
    /// Names in the webhook's filters that no token or profile has yet.
    pub(super) unknown: Vec<String>,
    pub(super) faults: Faults,
}

impl WebhookForm {
    fn new(url: String, description: String, filter: FilterFields, faults: Faults) -> Self {
        let (boxes, unknown) = (filter.boxes(), Vec::new());
        Self { url, description, boxes, is_thin: false, filter, shows_filters: true, unknown, faults }
    }

    pub(super) fn empty() -> Self {
        let filter = FilterFields::of(&[v1::EventType::ThesisCreated], None);
        Self::new(String::new(), String::new(), filter, Faults::none())
    }

    /// The form with the current values of a webhook.
    pub(super) fn of(webhook: &v1::Webhook, faults: Faults) -> Self {
        let types: Vec<_> = webhook.events().collect();
        let filter = FilterFields::of(&types, webhook.filters.as_ref());
        let shows_filters = filter.holds(webhook.filters.as_ref());
        let description = webhook.description.clone().unwrap_or_default();
        let is_thin = webhook.payload() == v1::WebhookPayload::Thin;
        Self { shows_filters, is_thin, ..Self::new(webhook.url.clone(), description, filter, faults) }
    }

    /// The form with the typed values and their faults.
    pub(super) fn again(typed: &TypedWebhook, faults: Faults) -> Self {
        let shows_filters = typed.token.is_some();
        let is_thin = typed.payload() == v1::WebhookPayload::Thin;
        let form = Self::new(typed.url.clone(), typed.description.clone(), typed.filter_fields(), faults);
        Self { shows_filters, is_thin, ..form }
    }

    /// The fault of the headers, or of the first faulty one.
    pub(super) fn headers_fault(&self) -> Option<&str> {
        self.faults.field(HEADERS).or_else(|| self.faults.first_within(HEADERS))
    }

    /// The fault of the ticked boxes.
    pub(super) fn events_fault(&self) -> Option<&str> {
        let fault = self.faults.field("events")?;
        // Core's message is about a list, not about boxes.
        Some(if self.filter.types.is_empty() { "Tick at least one." } else { fault })
    }
}

/// The webhook's `updated_at` in Unix milliseconds, which its form sends back.
pub(super) fn revision(webhook: &v1::Webhook) -> i64 {
    webhook.updated_at.as_ref().map_or(0, to_millis)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    fn typed() -> TypedWebhook {
        TypedWebhook {
            url: " https://a.example/hook ".to_owned(),
            description: "  ".to_owned(),
            events: vec!["thesis.created".to_owned(), "token.activity".to_owned()],
            token: Some("$RUN, tk_1".to_owned()),
            unchanged_since: 1_795_442_700_123,
            ..TypedWebhook::default()
        }
    }

    #[test]
    fn a_form_becomes_a_webhook() {
        let new = typed().new_webhook();
        assert_eq!((new.url.as_deref(), new.description.as_deref()), (Some("https://a.example/hook"), None));
        assert_eq!(new.events, [v1::EventType::ThesisCreated, v1::EventType::TokenActivity].map(i32::from));
        assert_eq!(new.filters.unwrap().token, ["$RUN", "tk_1"]);
    }

    #[test]
    fn a_form_becomes_a_change_of_what_it_showed() {
        let changes = typed().changes("wh_1");
        // The mask names empty fields too, so core clears them.
        assert_eq!(changes.update_mask.unwrap().paths, ["url", "description", "events", FILTERS, "payload"]);
        assert_eq!((&*changes.id, changes.description), ("wh_1", None));
        let webhook = v1::Webhook { updated_at: changes.unchanged_since, ..v1::Webhook::default() };
        assert_eq!(revision(&webhook), 1_795_442_700_123);
    }

    #[test]
    fn filters_that_cannot_be_typed_stay_as_they_are() {
        let of = |token: &[String]| {
            let filters = v1::EventFilters { token: token.to_vec(), ..v1::EventFilters::default() };
            WebhookForm::of(&v1::Webhook { filters: Some(filters), ..v1::Webhook::default() }, Faults::none())
        };
        assert!(of(&[]).shows_filters && of(&["$RUN".to_owned(), "tk_1".to_owned()]).shows_filters);
        for token in [&["a,b".to_owned()][..], &[" x".to_owned()], &vec!["x".repeat(200); 50]] {
            assert!(!of(token).shows_filters, "{token:?}");
        }
        let changes = TypedWebhook { token: None, ..typed() }.changes("wh_1");
        assert_eq!(changes.update_mask.unwrap().paths, ["url", "description", "events", "payload"]);
    }

    #[test]
    fn lines_become_headers() {
        let headers = " X-Key : a: b \r\n\r\nX-Old:\nX-Odd".to_owned();
        let changes = TypedWebhook { headers, payload: "thin".to_owned(), ..typed() }.changes("wh_1");
        let header = |name: &str, value: Option<&str>| v1::WebhookHeader {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        assert_eq!(changes.headers, [header("X-Key", Some("a: b")), header("X-Old", None), header("X-Odd", None)]);
        assert_eq!(changes.payload(), v1::WebhookPayload::Thin);
        assert_eq!(changes.update_mask.unwrap().paths, CHANGED);
    }

    #[test]
    fn faults_are_shown_at_their_field() {
        let message = "this URL cannot receive webhooks: its port is not allowed; use 443";
        let error = ApiError::new(ErrorCode::WebhookUrlForbidden, message).with_details(json!({ "reason": "port" }));
        let faults = faults_of(&error.to_status("")).unwrap();
        let shown = "This URL cannot receive webhooks: its port is not allowed; use 443.";
        assert_eq!((faults.field("url"), faults.status()), (Some(shown), StatusCode::UNPROCESSABLE_ENTITY));
        let listed = ApiError::validation(&[FieldError::new("events", "must have 1 to 10 items")]).to_status("");
        let form = |typed: &TypedWebhook| WebhookForm::again(typed, faults_of(&listed).unwrap());
        assert_eq!(form(&TypedWebhook::default()).events_fault(), Some("Tick at least one."));
        assert_eq!(form(&typed()).events_fault(), Some("Must have 1 to 10 items."));
        assert_eq!(WebhookForm::empty().events_fault(), None);
    }
}

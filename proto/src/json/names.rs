//! Enums in JSON and in OpenAPI: the names of `crate::names`.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

use crate::{names, v1};

/// Makes the JSON type of an enum from its table of names.
macro_rules! enums {
    ($($(#[doc = $doc:literal])+ $name:ident of $enum:ident: $name_of:path, $values:expr;)+) => {
        $($(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name(pub v1::$enum);

        impl From<&i32> for $name {
            fn from(value: &i32) -> Self {
                Self(v1::$enum::try_from(*value).unwrap_or_default())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($name_of(self.0))
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let about = concat!($($doc),+).trim();
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some($values)).description(Some(about)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        })+
    };
}

fn all<E>(table: &'static [(E, &'static str)]) -> impl Iterator<Item = &'static str> {
    table.iter().map(|(_, name)| *name)
}

enums! {
    /// Type of an event.
    EventType of EventType: names::event_type_name, all(names::EVENT_TYPES);
    /// The origin of a row.
    Source of Source: names::source_name, ["upstream", "sandbox"];
    /// The origin of an event.
    EventSource of Source: names::source_name, all(names::SOURCES);
    /// State of a webhook.
    WebhookStatus of WebhookStatus: names::webhook_status_name, all(names::WEBHOOK_STATUSES);
    /// Content of a webhook's deliveries: `full` is the whole event, `thin` only `object`, `id`, `type`, `created_at`
    /// and `livemode`.
    WebhookPayload of WebhookPayload: names::webhook_payload_name, all(names::WEBHOOK_PAYLOADS);
    /// The count of a token that an alert watches.
    AlertMetric of AlertMetric: names::alert_metric_name, all(names::ALERT_METRICS);
    /// State of an alert.
    AlertState of AlertState: names::alert_state_name, all(names::ALERT_STATES);
    /// State of a delivery.
    DeliveryStatus of DeliveryStatus: names::delivery_status_name, all(names::DELIVERY_STATUSES);
    /// Why a verification came out as it did.
    VerificationReason of VerificationReason: names::verification_reason_name, all(names::VERIFICATION_REASONS);
    /// The origin of a verification's data.
    ServedFrom of ServedFrom: names::served_from_name, all(names::SERVED_FROM);
    /// Environment of a key.
    Environment of Environment: names::environment_name, all(names::ENVIRONMENTS);
    /// Order of a list of theses.
    ThesisSort of ThesisSort: names::thesis_sort_name, all(names::THESIS_SORTS);
    /// Order of theses found by a search.
    SearchSort of SearchSort: names::search_sort_name, all(names::SEARCH_SORTS);
    /// State of the service, or of a role: `degraded` works in part, and a role that is `down` has no process that
    /// works.
    ServiceState of ServiceState: names::service_state_name, all(names::SERVICE_STATES);
    /// State of a process: a `failing` one says that it cannot serve, a `stalled` one has fallen silent.
    ProcessState of ProcessState: names::process_state_name, all(names::PROCESS_STATES);
    /// What a process does.
    ProcessRole of ProcessRole: names::process_role_name, all(names::PROCESS_ROLES);
    /// State of the upstream's feed.
    FeedState of FeedState: names::feed_state_name, all(names::FEED_STATES);
    /// A kind of thing that search finds.
    SearchType of SearchType: names::search_type_name, all(names::SEARCH_TYPES);
}

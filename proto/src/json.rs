//! The canonical JSON of the public resources: views that borrow a message and serialise it. History, streams and
//! webhooks all use it, so that an event has the same bytes everywhere. The same types are the OpenAPI schemas.
//!
//! `build/json.rs` generates a view for each entry of `views.json` from the message's descriptor, and says by which
//! rules.

mod alert;
mod discovery;
mod error;
mod list;
mod names;
mod raw;
mod rendered;
mod stream;
#[cfg(test)]
mod tests;
mod time;
pub mod untrusted;
mod webhook;

use utoipa::openapi::{Object, ObjectBuilder, Type};

use self::raw::raw;
pub use self::{
    alert::DeletedAlert,
    discovery::Discovery,
    error::{Error, ErrorEnvelope},
    list::List,
    names::{
        AlertMetric, AlertState, DeliveryStatus, Environment, EventSource, EventType, FeedState, ProcessRole,
        ProcessState, SearchSort, SearchType, ServedFrom, ServiceState, Source, ThesisSort, VerificationReason,
        WebhookPayload, WebhookStatus,
    },
    raw::RawJson,
    rendered::{RenderedRow, RenderedRows, render},
    stream::StreamCursor,
    time::Time,
    webhook::{DeletedWebhook, WebhookWithSecret, thin_event},
};
use crate::v1;

include!(concat!(env!("OUT_DIR"), "/views.rs"));

/// The canonical bytes of an event.
#[must_use]
pub fn event_json(event: &v1::Event) -> Vec<u8> {
    serde_json::to_vec(&Event::from(event)).expect("strings, numbers and lists always serialise")
}

/// The view of a sub-message that a well-formed message always has.
fn part<'a, M, V: From<&'a M> + Default>(message: &'a Option<M>) -> V {
    message.as_ref().map(V::from).unwrap_or_default()
}

/// The views of a repeated field.
fn each<'a, M, V: From<&'a M>>(messages: &'a [M]) -> Vec<V> {
    messages.iter().map(V::from).collect()
}

/// For optional flags, which are left out unless true.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The schema of a field that always has this text.
fn constant(text: &str) -> Object {
    described(text, &format!("Always `{text}`."))
}

/// The schema of `metrics_scope`.
fn ingested() -> Object {
    let about = "Always `ingested`: counts are of theses that the service has observed, not the upstream's totals.";
    described("ingested", about)
}

fn described(text: &str, about: &str) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some([text])).description(Some(about)).build()
}

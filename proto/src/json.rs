//! The canonical JSON of the public resources: views that borrow a message and serialise it. History, streams and
//! webhooks all use it, so that an event has the same bytes everywhere. The same types are the OpenAPI schemas.

mod delivery;
mod discovery;
mod error;
mod event;
mod key;
mod list;
mod names;
mod profile;
mod search;
mod stream;
mod test_thesis;
#[cfg(test)]
mod tests;
mod thesis;
mod time;
mod token;
mod usage;
mod verification;
mod webhook;

pub use self::{
    delivery::WebhookDelivery,
    discovery::Discovery,
    error::{Error, ErrorEnvelope},
    event::{
        Event, EventData, ProfileUpdatedData, ThesisCreatedData, TokenActivityData, TokenThesisVelocityData, event_json,
    },
    key::{KeyInfo, KeyOrganization, KeyProject},
    list::{EventList, List, Listed, ThesisList, WebhookDeliveryList, WebhookList},
    names::{
        DeliveryStatus, Environment, EventSource, EventType, SearchSort, SearchType, ServedFrom, Source, ThesisSort,
        VerificationReason, WebhookStatus,
    },
    profile::{ObservedWallet, Profile, ProfileRef, ProfileWallets, Wallet},
    search::SearchResult,
    stream::{StreamCursor, StreamGap, StreamTicket},
    test_thesis::TestThesisResult,
    thesis::Thesis,
    time::Time,
    token::{ThesisVelocity, TimelineBucket, Token, TokenActivity, TokenRef},
    usage::{MonthUsage, RateUsage, RateUsages, StreamUsage, Usage, WebhookUsage},
    verification::{ThesisVerification, VerificationChecks, VerificationFreshness},
    webhook::{DeletedWebhook, Webhook, WebhookFilters, WebhookWithSecret},
};

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

/// Schemas of constant fields.
mod constant {
    use utoipa::openapi::{Object, ObjectBuilder, Type};

    macro_rules! constants {
        ($($name:ident = $text:literal),+ $(,)?) => {
            $(pub(super) fn $name() -> Object {
                constant($text, concat!("Always `", $text, "`."))
            })+
        };
    }

    constants! {
        api_key = "api_key",
        discovery = "discovery",
        event = "event",
        profile = "profile",
        profile_wallets = "profile_wallets",
        search_result = "search_result",
        status_ok = "ok",
        stream_cursor = "stream_cursor",
        stream_ticket = "stream_ticket",
        test_thesis = "test_thesis",
        thesis = "thesis",
        thesis_velocity = "thesis_velocity",
        thesis_verification = "thesis_verification",
        token = "token",
        token_activity = "token_activity",
        usage = "usage",
        webhook = "webhook",
        webhook_delivery = "webhook_delivery",
    }

    pub(super) fn ingested() -> Object {
        let about = "Always `ingested`: counts are of theses that the service has observed, not the upstream's totals.";
        constant("ingested", about)
    }

    pub(super) fn always_true() -> Object {
        let object = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
        object.description(Some("Always true.")).build()
    }

    fn constant(text: &str, about: &str) -> Object {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some([text])).description(Some(about)).build()
    }
}

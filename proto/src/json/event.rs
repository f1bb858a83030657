//! Events: one form for history, streams and webhooks.

use serde::Serialize;
use utoipa::ToSchema;

use super::{EventSource, EventType, Profile, ProfileRef, Time, TokenRef, constant, is_false, part};
use crate::v1;

/// Something that happened.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Event<'a> {
    #[schema(schema_with = constant::event)]
    object: &'static str,
    /// Prefix `evt_`; stable, use it for deduplication.
    id: &'a str,
    /// What kind of event it is.
    r#type: EventType,
    /// When the event was added to the log; it orders the events.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// True for live data, false for test data.
    livemode: bool,
    /// Where it came from.
    source: EventSource,
    /// True for events generated for a test, never real activity.
    #[serde(skip_serializing_if = "is_false")]
    test: bool,
    /// What happened; its shape depends on `type`.
    #[schema(value_type = EventData)]
    data: Option<EventData<'a>>,
}

impl<'a> From<&'a v1::Event> for Event<'a> {
    fn from(event: &'a v1::Event) -> Self {
        Self {
            object: "event",
            id: &event.id,
            r#type: EventType::from(&event.r#type),
            created_at: part(&event.created_at),
            livemode: event.livemode,
            source: EventSource::from(&event.source),
            test: event.test.unwrap_or_default(),
            data: event.data.as_ref().map(EventData::from),
        }
    }
}

/// The canonical bytes of an event.
#[must_use]
pub fn event_json(event: &v1::Event) -> Vec<u8> {
    serde_json::to_vec(&Event::from(event)).expect("strings, numbers and lists always serialise")
}

/// What happened; its shape depends on the event's `type`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventData<'a> {
    /// Of `thesis.created`.
    ThesisCreated(ThesisCreatedData<'a>),
    /// Of `profile.updated`.
    ProfileUpdated(ProfileUpdatedData<'a>),
    /// Of `token.activity`.
    TokenActivity(TokenActivityData<'a>),
    /// Of `token.thesis_velocity`.
    TokenThesisVelocity(TokenThesisVelocityData<'a>),
}

impl<'a> From<&'a v1::event::Data> for EventData<'a> {
    fn from(data: &'a v1::event::Data) -> Self {
        match data {
            v1::event::Data::ThesisCreated(data) => Self::ThesisCreated(data.into()),
            v1::event::Data::ProfileUpdated(data) => Self::ProfileUpdated(data.into()),
            v1::event::Data::TokenActivity(data) => Self::TokenActivity(data.into()),
            v1::event::Data::TokenThesisVelocity(data) => Self::TokenThesisVelocity(data.into()),
        }
    }
}

/// Data of `thesis.created`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ThesisCreatedData<'a> {
    /// Id of the thesis, prefix `th_`.
    thesis_id: &'a str,
    /// The author, as at the event.
    profile: ProfileRef<'a>,
    /// The token, as at the event.
    token: TokenRef<'a>,
    /// What the author wrote.
    text: &'a str,
    /// When the thesis was posted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// Always null: the upstream has no link to a single thesis.
    #[schema(required, format = "uri")]
    public_url: Option<&'a str>,
}

impl<'a> From<&'a v1::ThesisCreatedData> for ThesisCreatedData<'a> {
    fn from(data: &'a v1::ThesisCreatedData) -> Self {
        Self {
            thesis_id: &data.thesis_id,
            profile: part(&data.profile),
            token: part(&data.token),
            text: &data.text,
            created_at: part(&data.created_at),
            public_url: data.public_url.as_deref(),
        }
    }
}

/// Data of `profile.updated`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProfileUpdatedData<'a> {
    /// The profile after the change.
    profile: Profile<'a>,
    /// Names of the fields that changed.
    changed: &'a [String],
}

impl<'a> From<&'a v1::ProfileUpdatedData> for ProfileUpdatedData<'a> {
    fn from(data: &'a v1::ProfileUpdatedData) -> Self {
        Self { profile: part(&data.profile), changed: &data.changed }
    }
}

/// Data of `token.activity`.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenActivityData<'a> {
    /// The token.
    token: TokenRef<'a>,
    /// Theses of the last hour.
    thesis_count_1h: i64,
    /// Theses of the last 24 hours.
    thesis_count_24h: i64,
    /// Profiles that posted in the last 24 hours.
    unique_authors_24h: i64,
    /// Id of the newest thesis, when there is one.
    #[schema(required)]
    latest_thesis_id: Option<&'a str>,
    /// When the newest thesis was posted; null without any.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    last_activity_at: Option<Time>,
}

impl<'a> From<&'a v1::TokenActivityData> for TokenActivityData<'a> {
    fn from(data: &'a v1::TokenActivityData) -> Self {
        Self {
            token: part(&data.token),
            thesis_count_1h: data.thesis_count_1h,
            thesis_count_24h: data.thesis_count_24h,
            unique_authors_24h: data.unique_authors_24h,
            latest_thesis_id: data.latest_thesis_id.as_deref(),
            last_activity_at: data.last_activity_at.as_ref().map(Time::from),
        }
    }
}

/// Data of `token.thesis_velocity`.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenThesisVelocityData<'a> {
    /// The token.
    token: TokenRef<'a>,
    /// Theses of the last 5 minutes.
    last_5m: i64,
    /// Theses of the last hour.
    last_1h: i64,
    /// Theses of the hour before the last.
    previous_1h: i64,
    /// Null when `previous_1h` is 0.
    #[schema(required)]
    change_pct: Option<f64>,
    /// The time up to which all counts reach.
    #[schema(value_type = String, format = DateTime)]
    computed_at: Time,
}

impl<'a> From<&'a v1::TokenThesisVelocityData> for TokenThesisVelocityData<'a> {
    fn from(data: &'a v1::TokenThesisVelocityData) -> Self {
        Self {
            token: part(&data.token),
            last_5m: data.last_5m,
            last_1h: data.last_1h,
            previous_1h: data.previous_1h,
            change_pct: data.change_pct,
            computed_at: part(&data.computed_at),
        }
    }
}

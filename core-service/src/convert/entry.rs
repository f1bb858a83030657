//! Log entries as public events.

use thesis_proto::{
    time::from_millis,
    v1::{self, event::Data},
};

use super::{
    optional_time,
    row::{profile, profile_ref, token_ref},
};
use crate::domain::{
    dataset::Dataset,
    entry::{Entry, Kind},
};

/// The type of an entry's event; none for entries that never leave core.
pub fn event_type(entry: &Entry) -> Option<v1::EventType> {
    Some(match entry.kind.as_ref()? {
        Kind::ThesisCreated(_) => v1::EventType::ThesisCreated,
        Kind::ProfileUpdated(_) => v1::EventType::ProfileUpdated,
        Kind::TokenActivity(_) => v1::EventType::TokenActivity,
        Kind::ThesisVelocity(_) => v1::EventType::TokenThesisVelocity,
        Kind::ThesisEdited(_)
        | Kind::Engagement(_)
        | Kind::ThesisDeleted(_)
        | Kind::ProfileObserved(_)
        | Kind::TokenObserved(_)
        | Kind::ThesisAwaited(_) => return None,
    })
}

/// The event of a dataset's entry; none for entries that never leave core.
pub fn event(dataset: &Dataset, entry: &Entry) -> Option<v1::Event> {
    let kind = entry.kind.as_ref()?;
    let derived = matches!(kind, Kind::TokenActivity(_) | Kind::ThesisVelocity(_));
    let source = match (dataset.livemode(), derived) {
        (false, _) => v1::Source::Sandbox,
        (true, true) => v1::Source::Derived,
        (true, false) => v1::Source::Upstream,
    };
    let data = match kind {
        Kind::ThesisCreated(created) => Data::ThesisCreated(v1::ThesisCreatedData {
            thesis_id: created.thesis.id.clone(),
            profile: Some(profile_ref(&created.profile)),
            token: Some(token_ref(&created.token)),
            text: created.thesis.text.clone(),
            created_at: Some(from_millis(created.thesis.created_at)),
            public_url: None,
        }),
        Kind::ProfileUpdated(updated) => Data::ProfileUpdated(v1::ProfileUpdatedData {
            profile: Some(profile(dataset, &updated.profile, false)),
            changed: updated.changed.clone(),
        }),
        Kind::TokenActivity(activity) => Data::TokenActivity(v1::TokenActivityData {
            token: Some(token_ref(&activity.token)),
            thesis_count_1h: activity.thesis_count_1h,
            thesis_count_24h: activity.thesis_count_24h,
            unique_authors_24h: activity.unique_authors_24h,
            latest_thesis_id: activity.latest_thesis_id.clone(),
            last_activity_at: optional_time(activity.last_activity_at),
        }),
        Kind::ThesisVelocity(velocity) => Data::TokenThesisVelocity(v1::TokenThesisVelocityData {
            token: Some(token_ref(&velocity.token)),
            last_5m: velocity.last_5m,
            last_1h: velocity.last_1h,
            previous_1h: velocity.previous_1h,
            change_pct: velocity.change_pct(),
            computed_at: Some(from_millis(entry.created_at)),
        }),
        Kind::ThesisEdited(_)
        | Kind::Engagement(_)
        | Kind::ThesisDeleted(_)
        | Kind::ProfileObserved(_)
        | Kind::TokenObserved(_)
        | Kind::ThesisAwaited(_) => return None,
    };
    Some(v1::Event {
        id: entry.id.clone(),
        r#type: event_type(entry)?.into(),
        created_at: Some(from_millis(entry.created_at)),
        livemode: dataset.livemode(),
        source: source.into(),
        test: entry.test.then_some(true),
        data: Some(data),
    })
}

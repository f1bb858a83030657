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
    entry::{Entry, EntryOutline, Kind},
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
        | Kind::ThesisAwaited(_)
        | Kind::ArchiveFile(_) => return None,
    })
}

/// Returns false if an entry with this outline is no event of these types; no types means all. If it returns true, the
/// whole entry decides.
pub fn may_be_event(outline: &EntryOutline, types: &[v1::EventType]) -> bool {
    // The tags of `Kind`.
    let event_type = match outline.kind {
        4 => v1::EventType::ThesisCreated,
        5 => v1::EventType::TokenActivity,
        6 => v1::EventType::TokenThesisVelocity,
        7 => v1::EventType::ProfileUpdated,
        tag if [8, 9, 10, 11, 12, 13, 17].contains(&tag) => return false,
        // It may be of a kind that only a newer version knows, which no reader may pass over.
        _ => return true,
    };
    types.is_empty() || types.contains(&event_type)
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
        | Kind::ThesisAwaited(_)
        | Kind::ArchiveFile(_) => return None,
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

#[cfg(test)]
mod tests {
    use thesis_proto::names::EVENT_TYPES;

    use super::*;
    use crate::domain::{entry::ThesisCreated, row::Thesis};

    fn outline(stored: &[u8]) -> EntryOutline {
        EntryOutline::read(stored).unwrap()
    }

    #[test]
    fn an_outline_says_the_time_and_type_of_the_whole_entry() {
        // The log stores a creation at its place without its id.
        let thesis = Thesis { id: "th_1".to_owned(), sequence: Some(3), ..Thesis::default() };
        let kinds = [
            Kind::ThesisCreated(ThesisCreated { thesis, ..ThesisCreated::default() }),
            Kind::ThesisCreated(Default::default()),
            Kind::TokenActivity(Default::default()),
            Kind::ThesisVelocity(Default::default()),
            Kind::ProfileUpdated(Default::default()),
            Kind::ThesisEdited(Default::default()),
            Kind::Engagement(Default::default()),
            Kind::ThesisDeleted(Default::default()),
            Kind::ProfileObserved(Default::default()),
            Kind::TokenObserved(Default::default()),
            Kind::ThesisAwaited(Default::default()),
            Kind::ArchiveFile(Default::default()),
        ];
        for kind in kinds {
            let (id, kind, trace, salt, leaf) = ("evt_1".to_owned(), Some(kind), vec![1], vec![2], vec![3]);
            let entry = Entry { id, created_at: 7, test: true, kind, trace, salt, leaf };
            let (outline, whole) = (outline(&entry.stored(3)), event_type(&entry));
            assert_eq!(outline.created_at, 7);
            assert_eq!(may_be_event(&outline, &[]), whole.is_some(), "{entry:?}");
            for (wanted, _) in EVENT_TYPES {
                assert_eq!(may_be_event(&outline, &[*wanted]), whole == Some(*wanted), "{entry:?}");
            }
        }
    }

    #[test]
    fn an_entry_without_a_known_kind_is_not_passed_over() {
        let filler = Entry::filler(3, 7).stored(3);
        // Field 99 with a message of no bytes: a kind of a newer version.
        let unknown = [filler.as_slice(), &[0x9a, 0x06, 0x00]].concat();
        for stored in [&filler, &unknown] {
            assert_eq!(outline(stored), EntryOutline { created_at: 7, kind: 0 });
            assert!(may_be_event(&outline(stored), &[v1::EventType::ThesisCreated]));
        }
        assert!(EntryOutline::read(&filler[..filler.len() - 1]).is_err(), "it is cut off");
    }
}

use std::sync::Arc;

use prost::Message as _;

use super::*;
use crate::{
    domain::entry::{Entry, Kind, SequencedEntry, ThesisChanged, ThesisCreated},
    log::projection::Projector,
    tables::theses::ThesisStore,
    tests::harness::{ManualClock, core, memory, new_thesis, shared_memory},
};

#[tokio::test]
async fn an_event_that_is_in_a_log_twice_is_counted_once() {
    let clock = ManualClock::new();
    for backend in [memory(&clock), shared_memory(&clock)] {
        let core = core(Arc::clone(&backend), &clock, 1).await;
        let dataset = Dataset::of_project("checked");
        let name = dataset.to_string();
        let new = new_thesis(&dataset, 1);
        let created = || {
            let (thesis, profile, token) = (new.thesis.clone(), new.profile.clone(), new.token.clone());
            Kind::ThesisCreated(ThesisCreated { thesis, profile, token, ..ThesisCreated::default() })
        };
        let changed = || Kind::Engagement(ThesisChanged { thesis: new.thesis.clone() });
        let kinds = [("evt_1", created()), ("ent_1", changed()), ("evt_2", created()), ("evt_1", created())];
        let entry = |(id, kind): (&str, Kind)| Entry { id: id.to_owned(), kind: Some(kind), ..Entry::default() };
        let entries: Vec<SequencedEntry> =
            (1..).zip(kinds).map(|(seq, kind)| SequencedEntry { seq, entry: entry(kind) }).collect();
        let bodies: Vec<Bytes> = entries.iter().map(|sequenced| sequenced.entry.encode_to_vec().into()).collect();
        core.shared.log.append(&name, 0, [1; 16], &bodies).await.unwrap();
        let event_ids = core.shared.event_positions.ids.clone();
        let projector = Projector::new(Arc::clone(&backend), ThesisStore::new(backend), name.clone(), event_ids);
        let check = async |dataset: &str| {
            let request = v1::CheckLogRequest { dataset: dataset.to_owned() };
            check_log(&core, &Actor::operator(None), &request).await.unwrap()
        };
        // The row of the id is at the first event, then at the second.
        for projected in [3, 4] {
            projector.project(&entries[..projected]).await.unwrap();
            let log = check(&name).await;
            assert_eq!((log.head, log.entries, log.gaps, log.duplicates), (4, 4, 0, 1), "{projected} projected");
        }
        let sandbox = check("sandbox").await;
        assert!(sandbox.head >= 150, "the fixtures");
        assert_eq!((sandbox.entries, sandbox.gaps, sandbox.duplicates), (sandbox.head, 0, 0));
        assert_eq!(check(CONTROL_LOG).await.gaps, 0);
    }
}

//! Drafts changes of alerts. Each has a revision, so that the log has each change once, whoever finds it.

use std::collections::BTreeSet;

use super::{Draft, EntryPlace};
use crate::{
    domain::{
        alert::{AlertChange, Crossing},
        entry::Kind,
        id,
    },
    log::writer::command::Command,
    store::StoreResult,
    tables::alerts,
};

impl Draft<'_> {
    /// Reads the unknown revisions of the alerts that commands change.
    pub(super) async fn lookup_revisions(&mut self, commands: &[&Command]) -> StoreResult<()> {
        let changed: BTreeSet<&str> = commands
            .iter()
            .filter_map(|command| match command {
                Command::ChangeAlert(change, _) => Some(change.alert.id.as_str()),
                _ => None,
            })
            .filter(|id| !self.revisions.contains_key(*id))
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = changed.into_iter().collect();
        let stored = alerts::progress(&self.shared.backend, self.name, &ids).await?;
        let revisions = ids.iter().zip(stored).map(|(id, progress)| ((*id).to_owned(), progress.revision));
        self.revisions.extend(revisions.collect::<Vec<_>>());
        Ok(())
    }

    /// Adds a change if it is the next one of its alert.
    pub(in crate::log::writer) fn change_alert(&mut self, change: &AlertChange, crossing: Crossing) -> EntryPlace {
        let (alert, revision) = (&change.alert.id, change.progress.revision);
        let known = self.revisions.get(alert).copied().unwrap_or_default();
        if revision != known + 1 {
            return EntryPlace::Nowhere;
        }
        self.revisions.insert(alert.clone(), revision);
        let event_id = || self.shared.event_positions.ids.encrypt(self.name, self.next_sequence());
        let (id, kind) = match crossing {
            Crossing::Firing => (event_id(), Kind::AlertFiring(change.clone())),
            Crossing::Resolved => (event_id(), Kind::AlertResolved(change.clone())),
            Crossing::None => {
                (id::derive("ent_", &["alert", alert, &revision.to_string()]), Kind::AlertProgressed(change.clone()))
            }
        };
        self.add(id, None, false, kind)
    }
}

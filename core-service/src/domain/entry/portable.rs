//! Conditions for copying an entry from one log to another.

use thesis_proto::reference::address_form;

use super::{Entry, Kind, ThesisChanged, ThesisDeleted, ThesisEdited};
use crate::domain::{
    dataset::Dataset,
    id,
    row::{Profile, Thesis, Token},
};

/// Prefix of the addresses of tokens that test theses created.
const TEST_ADDRESS: &str = "test";

impl Entry {
    /// Checks that its rows have the ids that they would get in a dataset. With other ids, a later observation of the
    /// upstream would create a second row. The error names that row. Also checks that a creation names `seq`, the place
    /// that it gets, and that a change names an earlier one: the writer and readers find the creation by that.
    pub fn must_suit(&self, dataset: &Dataset, seq: u64) -> Result<(), String> {
        if let Some(Kind::ThesisCreated(created)) = &self.kind
            && !created.is_found_at(&self.id, seq)
        {
            return Err(format!(
                "has another place than it says: {} was not created as entry {seq}",
                created.thesis.id
            ));
        }
        let (thesis, profile, token) = self.rows();
        let is_creation = matches!(self.kind, Some(Kind::ThesisCreated(_)));
        let is_later = |thesis: &&Thesis| thesis.sequence.is_some_and(|named| named >= seq);
        if let Some(thesis) = thesis.filter(is_later).filter(|_| !is_creation) {
            return Err(format!("names a later place than its own: {} was not created before entry {seq}", thesis.id));
        }
        let wrong = thesis.filter(|thesis| !thesis_suits(thesis, dataset)).map(|thesis| &thesis.id);
        let wrong = wrong.or_else(|| profile.filter(|row| !profile_suits(row, dataset)).map(|row| &row.id));
        let wrong = wrong.or_else(|| token.filter(|row| !token_suits(row, dataset)).map(|row| &row.id));
        wrong.map_or(Ok(()), |id| Err(format!("belongs to another dataset: {id} would have another id in {dataset}")))
    }

    fn rows(&self) -> (Option<&Thesis>, Option<&Profile>, Option<&Token>) {
        match &self.kind {
            Some(Kind::ThesisCreated(change)) => (Some(&change.thesis), Some(&change.profile), Some(&change.token)),
            Some(
                Kind::ThesisEdited(ThesisEdited { thesis, .. })
                | Kind::ThesisDeleted(ThesisDeleted { thesis, .. })
                | Kind::Engagement(ThesisChanged { thesis })
                | Kind::ThesisAwaited(ThesisChanged { thesis }),
            ) => (Some(thesis), None, None),
            Some(Kind::ProfileUpdated(change)) => (None, Some(&change.profile), None),
            Some(Kind::ProfileObserved(change)) => (None, Some(&change.profile), None),
            Some(Kind::TokenObserved(change)) => (None, None, Some(&change.token)),
            Some(Kind::TokenActivity(change)) => (None, None, Some(&change.token)),
            Some(Kind::ThesisVelocity(change)) => (None, None, Some(&change.token)),
            None => (None, None, None),
        }
    }
}

/// Returns the dataset names that the ids of rows may derive from: a project's theses also refer to rows of the
/// sandbox.
fn names(dataset: &Dataset) -> Vec<String> {
    let sandbox = matches!(dataset, Dataset::Project(_)).then(|| Dataset::Sandbox.to_string());
    std::iter::once(dataset.to_string()).chain(sandbox).collect()
}

fn thesis_suits(thesis: &Thesis, dataset: &Dataset) -> bool {
    // Test theses of the API have random ids.
    let is_of_test = thesis.upstream_id.is_empty() && matches!(dataset, Dataset::Project(_));
    is_of_test || thesis.id == id::of_thesis(&dataset.to_string(), &thesis.upstream_id)
}

fn profile_suits(profile: &Profile, dataset: &Dataset) -> bool {
    let is_of_test = profile.upstream_id.is_empty() && matches!(dataset, Dataset::Project(_));
    is_of_test || names(dataset).iter().any(|name| profile.id == id::of_profile(name, &profile.upstream_id))
}

fn token_suits(token: &Token, dataset: &Dataset) -> bool {
    // The API finds such a token by its symbol.
    let is_of_test = token.address.starts_with(TEST_ADDRESS) && matches!(dataset, Dataset::Project(_));
    let address = address_form(&token.address);
    is_of_test || names(dataset).iter().any(|name| token.id == id::of_token(name, &token.chain, &address))
}

#[cfg(test)]
mod tests;

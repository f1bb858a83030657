//! What an entry must fulfil to leave its log and enter another one.

use prost::Message as _;
use thesis_proto::reference::address_form;

use super::{Entry, Kind};
use crate::domain::{
    dataset::Dataset,
    id,
    row::{Profile, Thesis, Token},
};

/// How the addresses of tokens begin that came with test theses.
const TEST_ADDRESS: &str = "test";

impl Entry {
    /// Its stored form.
    #[must_use]
    pub fn stored(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Reads a stored form of which nothing may get lost.
    ///
    /// # Errors
    /// What is wrong with it: it is damaged, or has something that this version does not know.
    pub fn read_whole(stored: &[u8]) -> Result<Self, String> {
        let entry = Self::decode(stored).map_err(|error| format!("is damaged: {error}"))?;
        if !entry.is_known() || entry.encode_to_vec() != stored {
            return Err("has something that this version does not know; use the version that wrote it".to_owned());
        }
        Ok(entry)
    }

    /// Checks that its rows have the ids that they would get in a dataset. Otherwise an upstream's later observation of
    /// the same thing would make a second row.
    ///
    /// # Errors
    /// Which row has another id.
    pub fn must_suit(&self, dataset: &Dataset) -> Result<(), String> {
        let (thesis, profile, token) = self.rows();
        let wrong = thesis.filter(|thesis| !thesis_suits(thesis, dataset)).map(|thesis| &thesis.id);
        let wrong = wrong.or_else(|| profile.filter(|row| !profile_suits(row, dataset)).map(|row| &row.id));
        let wrong = wrong.or_else(|| token.filter(|row| !token_suits(row, dataset)).map(|row| &row.id));
        wrong.map_or(Ok(()), |id| Err(format!("belongs to another dataset: {id} would have another id in {dataset}")))
    }

    /// The rows that it holds.
    fn rows(&self) -> (Option<&Thesis>, Option<&Profile>, Option<&Token>) {
        match &self.kind {
            Some(Kind::ThesisCreated(told)) => (Some(&told.thesis), Some(&told.profile), Some(&told.token)),
            Some(Kind::ThesisEdited(told) | Kind::Engagement(told) | Kind::ThesisAwaited(told)) => {
                (Some(&told.thesis), None, None)
            }
            Some(Kind::ThesisDeleted(told)) => (Some(&told.thesis), None, None),
            Some(Kind::ProfileUpdated(told)) => (None, Some(&told.profile), None),
            Some(Kind::ProfileObserved(told)) => (None, Some(&told.profile), None),
            Some(Kind::TokenObserved(told)) => (None, None, Some(&told.token)),
            Some(Kind::TokenActivity(told)) => (None, None, Some(&told.token)),
            Some(Kind::ThesisVelocity(told)) => (None, None, Some(&told.token)),
            None => (None, None, None),
        }
    }
}

/// The names from which a dataset's rows can have their ids: a project's theses refer to rows of the sandbox too.
fn names(dataset: &Dataset) -> Vec<String> {
    let sandbox = matches!(dataset, Dataset::Project(_)).then(|| Dataset::Sandbox.to_string());
    std::iter::once(dataset.to_string()).chain(sandbox).collect()
}

fn thesis_suits(thesis: &Thesis, dataset: &Dataset) -> bool {
    // What the API made for a test was named at random.
    let is_of_test = thesis.upstream_id.is_empty() && matches!(dataset, Dataset::Project(_));
    is_of_test || thesis.id == id::of_thesis(&dataset.to_string(), &thesis.upstream_id)
}

fn profile_suits(profile: &Profile, dataset: &Dataset) -> bool {
    let is_of_test = profile.upstream_id.is_empty() && matches!(dataset, Dataset::Project(_));
    is_of_test || names(dataset).iter().any(|name| profile.id == id::of_profile(name, &profile.upstream_id))
}

fn token_suits(token: &Token, dataset: &Dataset) -> bool {
    // It is found by its symbol.
    let is_of_test = token.address.starts_with(TEST_ADDRESS) && matches!(dataset, Dataset::Project(_));
    let address = address_form(&token.address);
    is_of_test || names(dataset).iter().any(|name| token.id == id::of_token(name, &token.chain, &address))
}

#[cfg(test)]
mod tests;

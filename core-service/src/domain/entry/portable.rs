//! Conditions for copying an entry from one log to another.

use thesis_proto::{
    reference::address_form,
    time::{from_millis, is_time},
};

use super::{ArchiveFile, Entry, Kind, ThesisChanged, ThesisDeleted, ThesisEdited, Totals};
use crate::domain::{
    archive::{Day, FileKind},
    dataset::Dataset,
    id,
    row::{Profile, Thesis, Token},
};

/// Maximum size of a count, with which calculations cannot overflow.
const MAX_COUNT: u64 = 1 << 53;

/// Length of a SHA-256 in hexadecimal digits.
const SHA256_DIGITS: usize = 64;

/// Prefix of the addresses of tokens that test theses created.
const TEST_ADDRESS: &str = "test";

impl Entry {
    /// Checks that its rows have the ids that they would get in a dataset. With other ids, a later observation of the
    /// upstream would create a second row. The error names that row. Also checks that a creation names `seq`, the place
    /// that it gets, and that a change names an earlier one: the writer and readers find the creation by that. Receipts
    /// find the last edit or deletion by the place that later rows name.
    /// Also checks the range of times and counts: calculations with others would overflow.
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
        let may_be_last_change = |named: u64| match &self.kind {
            Some(Kind::ThesisCreated(_)) => false,
            Some(Kind::ThesisEdited(_) | Kind::ThesisDeleted(_)) => named == seq,
            _ => named < seq,
        };
        if let Some(thesis) = thesis.filter(|thesis| thesis.changed_in.is_some_and(|named| !may_be_last_change(named)))
        {
            return Err(format!("names a wrong place: the last change of {} has another one, or none", thesis.id));
        }
        if !self.times().all(|at| is_time(&from_millis(at))) {
            return Err("has a time outside of the years 1 to 9999".to_owned());
        }
        if let Some(Kind::ArchiveFile(file)) = &self.kind
            && !file_suits(file, seq)
        {
            return Err("names a file that no archive has".to_owned());
        }
        if self.counts().iter().any(|count| count.unsigned_abs() > MAX_COUNT) {
            return Err("has a count above 2^53".to_owned());
        }
        let wrong = thesis.filter(|thesis| !thesis_suits(thesis, dataset)).map(|thesis| &thesis.id);
        let wrong = wrong.or_else(|| profile.filter(|row| !profile_suits(row, dataset)).map(|row| &row.id));
        let wrong = wrong.or_else(|| token.filter(|row| !token_suits(row, dataset)).map(|row| &row.id));
        wrong.map_or(Ok(()), |id| Err(format!("belongs to another dataset: {id} would have another id in {dataset}")))
    }

    /// All times of the entry and its rows.
    fn times(&self) -> impl Iterator<Item = i64> {
        let (thesis, profile, token) = self.rows();
        let thesis = thesis.map(|row| {
            [Some(row.created_at), Some(row.updated_at), Some(row.recorded_at), row.deleted_at, row.removed_at]
        });
        let wallets = profile.into_iter().flat_map(|row| &row.wallets).map(|wallet| wallet.observed_at);
        let profile = profile.map(|row| {
            let ages = [row.age, row.wallets_age].map(|age| age.map(|age| age.observed_at));
            [Some(row.first_seen_at), Some(row.updated_at), row.created_at, row.source_updated_at, ages[0], ages[1]]
        });
        let token = token.map(|row| {
            let observed_at = row.age.map(|age| age.observed_at);
            [Some(row.first_seen_at), Some(row.updated_at), row.source_updated_at, observed_at]
        });
        let last_activity_at = match &self.kind {
            Some(Kind::TokenActivity(activity)) => activity.last_activity_at,
            _ => None,
        };
        let of_rows =
            thesis.into_iter().flatten().chain(profile.into_iter().flatten()).chain(token.into_iter().flatten());
        [Some(self.created_at), last_activity_at].into_iter().chain(of_rows).flatten().chain(wallets)
    }

    /// All counts that later entries continue or compare.
    fn counts(&self) -> Vec<i64> {
        let of = |totals: &Totals| {
            let all = totals.in_dataset.unwrap_or_default();
            let of_token = [totals.theses, totals.authors, totals.of_author, totals.by_author];
            of_token.into_iter().chain([all.theses, all.profiles, all.tokens]).collect()
        };
        match &self.kind {
            Some(Kind::ThesisCreated(created)) => of(&created.totals),
            Some(Kind::ThesisDeleted(deleted)) => of(&deleted.totals),
            Some(Kind::TokenActivity(now)) => vec![now.thesis_count_1h, now.thesis_count_24h, now.unique_authors_24h],
            Some(Kind::ThesisVelocity(now)) => vec![now.last_5m, now.last_1h, now.previous_1h],
            _ => Vec::new(),
        }
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
            Some(Kind::ArchiveFile(_)) | None => (None, None, None),
        }
    }
}

/// Returns the dataset names that the ids of rows may derive from: a project's theses also refer to rows of the
/// sandbox.
fn names(dataset: &Dataset) -> Vec<String> {
    let sandbox = matches!(dataset, Dataset::Project(_)).then(|| Dataset::Sandbox.to_string());
    std::iter::once(dataset.to_string()).chain(sandbox).collect()
}

/// The date, the kind and the hash become the name of a stored file.
fn file_suits(file: &ArchiveFile, seq: u64) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let has_hash = file.sha256.len() == SHA256_DIGITS && file.sha256.bytes().all(is_digit);
    Day::parse(&file.date).is_some() && FileKind::parse(&file.kind).is_some() && has_hash && file.position < seq
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

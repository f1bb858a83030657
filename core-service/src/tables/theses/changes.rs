//! The changes that a projection writes for profiles, tokens and theses: their rows, and the index rows that find them.

use bytes::Bytes;
use prost::Message as _;
use thesis_proto::reference::{address_form, handle_form, symbol_form};

use super::{ALL_AUTHORS, ALL_TOKENS, Bucket};
use crate::{
    domain::{
        entry::{Kind, SequencedEntry, ThesisChanged, ThesisCreated, ThesisEdited, Totals},
        row::{HandleClaim, Profile, Thesis, Token},
    },
    key,
    store::{Change, Table, Value, schema},
    tables::{archive_files::archive_change, events::symbol_change, index_scope::IndexScope},
};

/// Adds the changes of profiles, tokens and theses that an entry causes by itself. `thesis_change` makes that of a
/// thesis' own row. `is_new_bucket` returns whether a bucket is not yet known as listed.
pub fn entry_changes(
    dataset: &str,
    SequencedEntry { seq, entry }: &SequencedEntry,
    thesis_change: fn(&str, &Thesis, i64) -> Change,
    is_new_bucket: &impl Fn(&str, i64) -> bool,
    changes: &mut Vec<Change>,
) {
    let version = i64::try_from(*seq).unwrap_or(i64::MAX);
    match &entry.kind {
        Some(Kind::ThesisCreated(created)) => {
            if created.introduces_profile {
                profile_changes(dataset, &created.profile, version, changes);
            }
            if created.introduces_token {
                token_changes(dataset, &created.token, version, changes);
            }
            changes.push(thesis_change(dataset, &created.thesis, version));
            creation_changes(dataset, &created.thesis, version, is_new_bucket, changes);
            if created.totals.is_prolific() {
                prolific_changes(dataset, &created.thesis, version, is_new_bucket, changes);
            }
            totals_changes(dataset, &created.thesis, &created.totals, version, changes);
            changes.extend(author_change(dataset, created, version));
        }
        Some(
            Kind::ThesisEdited(ThesisEdited { thesis, .. })
            | Kind::Engagement(ThesisChanged { thesis })
            | Kind::ThesisAwaited(ThesisChanged { thesis }),
        ) => changes.push(thesis_change(dataset, thesis, version)),
        Some(Kind::ThesisDeleted(deleted)) => {
            changes.push(thesis_change(dataset, &deleted.thesis, version));
            deletion_changes(dataset, &deleted.thesis, version, is_new_bucket, changes);
            if deleted.totals.is_prolific() {
                changes.extend(prolific_deletion_changes(dataset, &deleted.thesis, version));
            }
            totals_changes(dataset, &deleted.thesis, &deleted.totals, version, changes);
        }
        Some(Kind::ProfileUpdated(updated)) => {
            profile_changes(dataset, &updated.profile, version, changes);
            if let Some(handle) = &updated.previous_handle {
                changes.extend(handle_release(dataset, &updated.profile, handle, version));
            }
        }
        Some(Kind::ProfileObserved(observed)) => profile_changes(dataset, &observed.profile, version, changes),
        Some(Kind::TokenObserved(observed)) => {
            token_changes(dataset, &observed.token, version, changes);
            if let Some(symbol) = &observed.previous_symbol {
                changes.extend(symbol_release(dataset, &observed.token, symbol, version));
            }
        }
        Some(Kind::ArchiveFile(file)) => changes.push(archive_change(dataset, file, version)),
        Some(Kind::TokenActivity(_) | Kind::ThesisVelocity(_)) | None => {}
    }
}

fn put(table: &'static Table, key: Vec<Value>, version: i64, body: Bytes) -> Change {
    Change { table, key, version, body: Some(body), ttl: None }
}

fn delete(table: &'static Table, key: Vec<Value>, version: i64) -> Change {
    Change { table, key, version, body: None, ttl: None }
}

/// Changes that store a profile and make it findable.
fn profile_changes(dataset: &str, profile: &Profile, version: i64, changes: &mut Vec<Change>) {
    let id = || Bytes::copy_from_slice(profile.id.as_bytes());
    changes.push(put(&schema::PROFILE, key![dataset, &profile.id], version, profile.encode_to_vec().into()));
    let claim = HandleClaim::of(profile).encode_to_vec();
    let key = key![dataset, handle_form(&profile.handle), &profile.id];
    changes.push(put(&schema::HANDLE_CLAIMS, key, version, claim.into()));
    if !profile.upstream_id.is_empty() {
        changes.push(put(&schema::UPSTREAM_REF, key![dataset, &profile.upstream_id], version, id()));
    }
}

/// The change that removes a handle that a profile gave up; none if its new handle has the same form.
fn handle_release(dataset: &str, profile: &Profile, handle: &str, version: i64) -> Option<Change> {
    let form = Some(handle_form(handle)).filter(|form| *form != handle_form(&profile.handle))?;
    Some(delete(&schema::HANDLE_CLAIMS, key![dataset, form, &profile.id], version))
}

/// Changes that store a token and make it findable.
fn token_changes(dataset: &str, token: &Token, version: i64, changes: &mut Vec<Change>) {
    let id = || Bytes::copy_from_slice(token.id.as_bytes());
    let address = address_form(&token.address);
    changes.push(put(&schema::TOKEN, key![dataset, &token.id], version, token.encode_to_vec().into()));
    changes.push(put(&schema::TOKEN_ADDRESS, key![dataset, &address, &token.chain], version, id()));
    changes.push(put(
        &schema::TOKEN_SYMBOL,
        key![dataset, symbol_form(&token.symbol), &token.chain, &address],
        version,
        id(),
    ));
    changes.push(symbol_change(dataset, token, version));
}

/// The change that removes a symbol that a token gave up; none if its new symbol has the same form.
fn symbol_release(dataset: &str, token: &Token, symbol: &str, version: i64) -> Option<Change> {
    let form = Some(symbol_form(symbol)).filter(|form| *form != symbol_form(&token.symbol))?;
    let key = key![dataset, form, &token.chain, address_form(&token.address)];
    Some(delete(&schema::TOKEN_SYMBOL, key, version))
}

pub fn thesis_change(dataset: &str, thesis: &Thesis, version: i64) -> Change {
    put(&schema::THESIS, key![dataset, &thesis.id], version, thesis.encode_to_vec().into())
}

/// The change that stores a thesis without its body: `version` is the number of a log entry that has it.
pub fn logged_thesis_change(dataset: &str, thesis: &Thesis, version: i64) -> Change {
    put(&schema::THESIS, key![dataset, &thesis.id], version, Bytes::new())
}

fn index_changes(
    dataset: &str,
    thesis: &Thesis,
    scope: &IndexScope,
    version: i64,
    is_new_bucket: &impl Fn(&str, i64) -> bool,
    changes: &mut Vec<Change>,
) {
    let (text, bucket) = (scope.text(), scope.bucket(thesis.created_at));
    if is_new_bucket(&text, bucket) {
        changes.push(put(&schema::INDEX_BUCKET, key![dataset, &text, bucket], version, Bytes::new()));
    }
    let key = key![dataset, text, bucket, thesis.created_at, &thesis.id];
    changes.push(put(&schema::THESIS_INDEX, key, version, scope.body(thesis)));
}

fn index_deletion(dataset: &str, thesis: &Thesis, scope: &IndexScope, version: i64) -> Change {
    let key = key![dataset, scope.text(), scope.bucket(thesis.created_at), thesis.created_at, &thesis.id];
    delete(&schema::THESIS_INDEX, key, version)
}

/// Changes that list a thesis: the index rows that every thesis has. `is_new_bucket` returns whether a bucket is not
/// yet known as listed.
pub fn creation_changes(
    dataset: &str,
    thesis: &Thesis,
    version: i64,
    is_new_bucket: impl Fn(&str, i64) -> bool,
    changes: &mut Vec<Change>,
) {
    for scope in IndexScope::of(thesis) {
        index_changes(dataset, thesis, &scope, version, &is_new_bucket, changes);
    }
}

/// Changes that store the index rows that only theses of prolific authors have.
pub fn prolific_changes(
    dataset: &str,
    thesis: &Thesis,
    version: i64,
    is_new_bucket: impl Fn(&str, i64) -> bool,
    changes: &mut Vec<Change>,
) {
    for scope in IndexScope::of_prolific(thesis) {
        index_changes(dataset, thesis, &scope, version, &is_new_bucket, changes);
    }
}

/// Changes that delete the index rows that only theses of prolific authors have.
fn prolific_deletion_changes(dataset: &str, thesis: &Thesis, version: i64) -> [Change; 2] {
    IndexScope::of_prolific(thesis).map(|scope| index_deletion(dataset, thesis, &scope, version))
}

/// Changes that move a deleted thesis from the lists of every author into those of deleted ones. Its row stays.
pub fn deletion_changes(
    dataset: &str,
    thesis: &Thesis,
    version: i64,
    is_new_bucket: impl Fn(&str, i64) -> bool,
    changes: &mut Vec<Change>,
) {
    changes.extend(IndexScope::of(thesis).map(|scope| index_deletion(dataset, thesis, &scope, version)));
    for scope in IndexScope::of_deleted(thesis) {
        index_changes(dataset, thesis, &scope, version, &is_new_bucket, changes);
    }
}

/// Returns whether a change lists a deleted thesis.
pub fn lists_deleted(change: &Change) -> bool {
    let is_of_index = [schema::THESIS_INDEX.name, schema::INDEX_BUCKET.name].contains(&change.table.name);
    is_of_index && change.key.get(1).is_some_and(|scope| IndexScope::is_of_deleted(scope.text()))
}

pub fn bucket_removal(dataset: &str, bucket: &Bucket, version: i64) -> Change {
    delete(&schema::INDEX_BUCKET, key![dataset, &bucket.scope, bucket.bucket], version)
}

/// The change that counts a thesis of an author; none once the author was prolific before.
fn author_change(dataset: &str, created: &ThesisCreated, version: i64) -> Option<Change> {
    let (author, count) = (&created.thesis.profile_id, created.totals.by_author);
    let body = Bytes::copy_from_slice(&count.to_be_bytes());
    (count < Totals::MAX_BY_AUTHOR).then(|| put(&schema::AUTHOR, key![dataset, author], version, body))
}

/// Changes that store a token's totals, and those of the dataset where they are counted.
fn totals_changes(dataset: &str, thesis: &Thesis, totals: &Totals, version: i64, changes: &mut Vec<Change>) {
    let (token, author) = (&thesis.token_id, &thesis.profile_id);
    let mut put_totals = |token: &str, author: &str, body: Bytes| {
        changes.push(put(&schema::TOKEN_TOTALS, key![dataset, token, author], version, body));
    };
    let of_token = Totals { theses: totals.theses, authors: totals.authors, ..Totals::default() };
    put_totals(token, ALL_AUTHORS, of_token.encode_to_vec().into());
    put_totals(token, author, Bytes::copy_from_slice(&totals.of_author.to_be_bytes()));
    if let Some(all) = totals.in_dataset {
        put_totals(ALL_TOKENS, ALL_AUTHORS, all.encode_to_vec().into());
    }
}

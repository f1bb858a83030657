//! The naive recount: derives the rows from the logs alone, and compares them with every stored row.

mod alert_history;
mod alerts;
mod control_log;

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;

pub(super) use self::alerts::Delays;
use self::{
    alerts::recount_alerts,
    control_log::{recount_audit, recount_control},
};
use super::{
    stored::{self, deliveries, logs, recount_theses, replay, stored_row},
    world::World,
};
use crate::{
    control::CONTROL_LOG,
    convert,
    domain::{
        control::ControlChange,
        dataset::Dataset,
        delivery::{Status, delivery_id},
        derivation::DERIVE_EVERY_MS,
        entry::{DatasetTotals, Entry, Kind, PROLIFIC_AFTER, SequencedEntry, Totals},
        event_id::thesis_event_id,
        row::Thesis,
    },
    key,
    log::writer::DERIVED,
    store::{Table, schema},
    tables::{
        control,
        delivery_rows::LOGGED,
        theses::{ALL_AUTHORS, ALL_TOKENS, ThesisStore},
    },
    tests::faulty::MemoryStore,
};

/// The tables that follow from the logs of datasets.
const PROJECTED: &[&Table] = &[
    &schema::EVENT,
    &schema::EVENT_INDEX,
    &schema::PROFILE,
    &schema::UPSTREAM_REF,
    &schema::HANDLE_CLAIMS,
    &schema::TOKEN,
    &schema::TOKEN_ADDRESS,
    &schema::TOKEN_SYMBOL,
    &schema::THESIS,
    &schema::THESIS_INDEX,
    &schema::INDEX_BUCKET,
    &schema::AUTHOR,
    &schema::TOKEN_TOTALS,
    &schema::ARCHIVE_FILE,
];

/// Limit of the difference between clocks of replicas.
const SKEW_MS: i64 = 2_000;

/// Compares everything.
pub(super) async fn recount(world: &World) {
    let rows = world.store.rows().await;
    let store = &*rows;
    let again = world.replayed.copy();
    let mut settled = BTreeMap::new();
    store.each(&schema::LOG_CHECKPOINT, |partition, clustering, version| {
        if clustering[0].text() == DERIVED {
            settled.insert(partition[0].text().to_owned(), version.unsigned_abs());
        }
    });
    let all = replay(store, &again).await;
    for (dataset, entries) in &all {
        recount_log(dataset, entries, settled.get(&dataset.to_string()).copied().unwrap_or_default());
        recount_totals(store, &dataset.to_string(), entries);
    }
    for table in PROJECTED {
        if !store.same(&again, table) {
            assert_eq!(shown(store, table), shown(&again, table), "table {}", table.name);
        }
    }
    recount_buckets(store);
    for (dataset, id) in &world.acknowledged.entries {
        let (_, entries) = all.iter().find(|(of, _)| of.to_string() == *dataset).expect("the dataset has a log");
        let is_logged = entries.iter().any(|SequencedEntry { entry, .. }| match &entry.kind {
            // A thesis that came after its own deletion causes no event.
            Some(Kind::ThesisDeleted(deleted)) => thesis_event_id(&deleted.thesis.id) == *id,
            _ => entry.id == *id,
        });
        assert!(is_logged, "{id} was acknowledged and is lost");
    }
    let rows = ThesisStore::new(rows.clone());
    recount_theses(&rows, &all).await;
    for id in &world.acknowledged.gone {
        let row = stored_row(&rows, &schema::THESIS, &key!["live", id]).await;
        assert!(row.contains("deleted_at: Some("), "the deletion of {id} was acknowledged: {row}");
    }
    for (table, key, text) in &world.expected {
        let row = stored_row(&rows, table, key).await;
        assert!(row.contains(text), "{text} was acknowledged: {row}");
    }
    let logs = logs(store);
    let control_log = &logs[CONTROL_LOG];
    recount_control(world, control_log).await;
    recount_audit(store, control_log);
    recount_alerts(control_log, &all, world.now(), world.delays);
    recount_progress(control_log, [store, &again]);
    recount_deliveries(world, store, &all);
}

/// Alerts have the progress that their logs have. The rows of deleted alerts may stay.
fn recount_progress(control_log: &[(u64, bytes::Bytes)], stores: [&MemoryStore; 2]) {
    let alerts = stored::alerts(control_log);
    let [found, logged] = stores.map(|store| {
        let mut rows = store.all(&schema::ALERT_PROGRESS);
        rows.retain(|(key, _)| alerts.iter().any(|alert| alert.id == key[1].text()));
        rows.into_iter().map(|(key, row)| format!("{key:?} {} {:?}", row.version, row.body)).collect::<Vec<_>>()
    });
    assert_eq!(found, logged, "the progress of alerts");
}

/// A bucket is listed while it has rows, and only then.
fn recount_buckets(store: &MemoryStore) {
    let (mut listed, mut filled) = (BTreeSet::new(), BTreeSet::new());
    store.each(&schema::INDEX_BUCKET, |partition, clustering, _| {
        listed.insert([partition, clustering].concat());
    });
    for index in [&schema::THESIS_INDEX, &schema::EVENT_INDEX] {
        store.each(index, |partition, _, _| {
            filled.insert(partition.to_vec());
        });
    }
    assert_eq!(listed, filled, "buckets that are listed, and that hold something");
}

fn shown(store: &MemoryStore, table: &Table) -> Vec<String> {
    let rows = store.all(table).into_iter();
    let has_version = table.name != schema::INDEX_BUCKET.name;
    rows.map(|(key, row)| format!("{key:?} {} {:?}", if has_version { row.version } else { 0 }, row.body)).collect()
}

/// Nothing is in a log twice, times do not go back, and derived events follow the last thesis, five seconds apart.
fn recount_log(dataset: &Dataset, entries: &[SequencedEntry], settled: u64) {
    let (mut seen, mut salts) = (BTreeSet::new(), BTreeSet::new());
    let mut pending: BTreeMap<&str, u64> = BTreeMap::new();
    let mut derived: BTreeMap<&str, i64> = BTreeMap::new();
    let (mut profiles, mut tokens) = (BTreeSet::new(), BTreeSet::new());
    let mut theses: Vec<&Thesis> = Vec::new();
    let mut gone_before = BTreeSet::new();
    let mut velocities = 0_i64;
    for pair in entries.windows(2) {
        assert!(pair[0].entry.created_at <= pair[1].entry.created_at, "time goes back in {dataset}");
    }
    for SequencedEntry { seq, entry } in entries {
        assert!(seen.insert(&entry.id), "{} is twice in {dataset}", entry.id);
        assert!(entry.salt.len() == Entry::SALT_BYTES && salts.insert(&entry.salt), "no salt of its own: {entry:?}");
        match &entry.kind {
            Some(Kind::ThesisCreated(created)) => {
                assert_eq!(entry.id, thesis_event_id(&created.thesis.id));
                assert_eq!(created.thesis.sequence, Some(*seq), "the place of {}", entry.id);
                assert_eq!(created.thesis.recorded_at, entry.created_at, "recorded at another time: {entry:?}");
                assert!(!gone_before.contains(&created.thesis.id), "came after its deletion: {entry:?}");
                assert!(!created.introduces_profile || profiles.insert(&created.profile.id), "introduced twice");
                assert!(!created.introduces_token || tokens.insert(&created.token.id), "introduced twice");
                theses.push(&created.thesis);
                pending.entry(&created.token.id).or_insert(*seq);
            }
            Some(Kind::ThesisDeleted(deleted)) => {
                assert_eq!(deleted.thesis.removed_at, Some(entry.created_at), "removed at another time: {entry:?}");
                let before = theses.len();
                theses.retain(|thesis| thesis.id != deleted.thesis.id);
                let was_there = theses.len() < before;
                assert!(was_there != gone_before.contains(&deleted.thesis.id), "deletes nothing: {entry:?}");
            }
            Some(Kind::ThesisAwaited(awaited)) if awaited.thesis.deleted_at.is_some() => {
                assert!(gone_before.insert(&awaited.thesis.id), "deleted twice: {entry:?}");
            }
            Some(Kind::TokenActivity(activity)) => {
                velocities += 1;
                assert!(pending.remove(activity.token.id.as_str()).is_some(), "derived from nothing: {entry:?}");
                if let Some(last) = derived.insert(&activity.token.id, entry.created_at) {
                    assert!(entry.created_at - last >= DERIVE_EVERY_MS, "derived too soon: {entry:?}");
                }
                if matches!(dataset, Dataset::Live) {
                    let counted = theses.iter().filter(|thesis| thesis.token_id == activity.token.id);
                    let at = entry.created_at;
                    let counted =
                        counted.filter(|thesis| thesis.created_at > at - 86_400_000 && thesis.created_at <= at);
                    assert_eq!(activity.thesis_count_24h, i64::try_from(counted.count()).unwrap(), "{entry:?}");
                }
            }
            Some(Kind::ThesisVelocity(_)) => velocities -= 1,
            _ => {}
        }
    }
    assert_eq!(velocities, 0, "a pair is incomplete");
    assert!(pending.values().all(|oldest| *oldest > settled), "pending, and settled up to {settled}: {pending:?}");
}

/// Totals are a count of the existing theses, and of the profiles and tokens that theses introduced.
fn recount_totals(store: &MemoryStore, name: &str, entries: &[SequencedEntry]) {
    let mut theses: BTreeMap<&str, &Thesis> = BTreeMap::new();
    let mut tokens = BTreeSet::new();
    let mut counted_all = DatasetTotals::default();
    let mut by_author: BTreeMap<&str, i64> = BTreeMap::new();
    for SequencedEntry { entry, .. } in entries {
        match &entry.kind {
            Some(Kind::ThesisCreated(created)) => {
                counted_all.profiles += i64::from(created.introduces_profile);
                counted_all.tokens += i64::from(created.introduces_token);
                tokens.insert(created.thesis.token_id.as_str());
                theses.insert(&created.thesis.id, &created.thesis);
                *by_author.entry(&created.thesis.profile_id).or_default() += 1;
            }
            Some(Kind::ThesisDeleted(deleted)) => drop(theses.remove(deleted.thesis.id.as_str())),
            _ => {}
        }
    }
    let authors = store.all(&schema::AUTHOR).into_iter().filter(|(key, _)| key[0].text() == name);
    let authors: BTreeMap<String, bytes::Bytes> =
        authors.map(|(key, row)| (key[1].text().to_owned(), row.body)).collect();
    let counted = by_author.into_iter().map(|(author, count)| {
        let count = count.min(i64::from(PROLIFIC_AFTER) + 1);
        (author.to_owned(), bytes::Bytes::copy_from_slice(&count.to_be_bytes()))
    });
    assert_eq!(authors, counted.collect(), "theses that authors of {name} ever had");
    let mut stored = BTreeMap::new();
    for (key, row) in store.all(&schema::TOKEN_TOTALS).into_iter().filter(|(key, _)| key[0].text() == name) {
        stored.insert((key[1].text().to_owned(), key[2].text().to_owned()), row.body);
    }
    let of = |token: &str, author: &str| stored.get(&(token.to_owned(), author.to_owned())).cloned();
    for token in tokens {
        let on = || theses.values().filter(|thesis| thesis.token_id == token);
        let authors: BTreeSet<&str> = on().map(|thesis| thesis.profile_id.as_str()).collect();
        let totals = Totals::decode(of(token, ALL_AUTHORS).unwrap()).unwrap();
        let counted = (i64::try_from(on().count()).unwrap(), i64::try_from(authors.len()).unwrap());
        assert_eq!((totals.theses, totals.authors), counted, "totals of {token} in {name}");
        for author in authors {
            let counted = i64::try_from(on().filter(|thesis| thesis.profile_id == author).count()).unwrap();
            assert_eq!(of(token, author).unwrap(), counted.to_be_bytes()[..], "theses of {author} on {token}");
        }
    }
    counted_all.theses = i64::try_from(theses.len()).unwrap();
    let all = of(ALL_TOKENS, ALL_AUTHORS).map(|body| DatasetTotals::decode(body).unwrap());
    let counted = (name.starts_with("project/") && !stored.is_empty()).then_some(counted_all);
    assert_eq!(all, counted, "totals of {name}");
    let mut listed = Vec::new();
    store.each(&schema::THESIS_INDEX, |partition, clustering, _| {
        if partition[0].text() == name && partition[1].text() == "all" {
            listed.push(clustering[1].text().to_owned());
        }
    });
    listed.sort_unstable();
    assert_eq!(listed, theses.keys().map(|id| (*id).to_owned()).collect::<Vec<_>>(), "theses listed in {name}");
}

/// Each event has one delivery to each webhook that existed before it. Each delivery has an event, and only attempts of
/// the worker.
fn recount_deliveries(world: &World, store: &MemoryStore, all: &[(Dataset, Vec<SequencedEntry>)]) {
    let rows = deliveries(store);
    let mut log = BTreeSet::new();
    let mut buckets = BTreeSet::new();
    store.each(&schema::DELIVERY_BUCKET, |partition, clustering, _| {
        buckets.insert((partition[0].text().to_owned(), clustering[0].int()));
    });
    store.each(&schema::DELIVERY, |partition, clustering, _| {
        let (webhook, bucket) = (partition[0].text(), partition[1].int());
        if clustering[0].int() == LOGGED {
            assert!(buckets.contains(&(webhook.to_owned(), bucket)), "{clustering:?} of {webhook} is not found");
            if world.acknowledged.webhooks.contains(webhook) {
                log.insert(clustering[2].text().to_owned());
            }
        }
    });
    let kept = rows.iter().filter(|row| world.acknowledged.webhooks.contains(&row.webhook_id));
    assert_eq!(log, kept.map(|row| row.id.clone()).collect(), "delivery logs");
    let created = |webhook: &str| {
        let changes = logs(store).remove(CONTROL_LOG).unwrap_or_default().into_iter();
        let mut changes = changes.flat_map(|(_, body)| control::decode(body).unwrap());
        let found = changes.find_map(|change| match change {
            ControlChange::Webhook(row) if row.id == webhook => Some(row.created_at),
            _ => None,
        });
        found.expect("a webhook was made")
    };
    for webhook in &world.old_webhooks {
        let since = created(webhook);
        for (dataset, entries) in all.iter().filter(|(dataset, _)| !dataset.livemode()) {
            for SequencedEntry { seq, entry } in entries {
                let id = delivery_id(webhook, entry.created_at, &[&entry.id]);
                let is_event = convert::entry::event(dataset, entry).is_some();
                let row = rows.iter().find(|row| row.id == id);
                if is_event && entry.created_at > since + SKEW_MS {
                    let row = row.unwrap_or_else(|| panic!("{} is owed to {webhook} and not queued", entry.id));
                    assert_eq!((row.dataset.as_str(), row.seq), (dataset.to_string().as_str(), *seq));
                    assert_eq!(row.status(), Status::Delivered);
                } else if !is_event || entry.created_at + SKEW_MS < since {
                    assert!(row.is_none(), "{} is not owed to {webhook}", entry.id);
                }
            }
        }
    }
    let sent = world.sent.lock();
    for row in &rows {
        assert!(row.attempts.iter().zip(1..).all(|(attempt, number)| attempt.number == number), "{row:?}");
        let event = all.iter().find(|(dataset, _)| dataset.to_string() == row.dataset);
        let event = event.and_then(|(_, entries)| entries.get(usize::try_from(row.seq).unwrap() - 1));
        assert_eq!(event.map(|event| &event.entry.id), Some(&row.event_id), "a delivery of nothing");
        if row.created_at > world.started_at {
            for attempt in &row.attempts {
                assert!(sent.contains(&(row.id.clone(), attempt.number)), "an attempt that nobody made: {row:?}");
            }
        }
    }
}

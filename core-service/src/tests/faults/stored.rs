//! The logs and deliveries in a store, their pending work, and a replay of the logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use prost::Message as _;
use thesis_proto::v1::WebhookStatus;

use crate::{
    alerts::JUDGED,
    control::CONTROL_LOG,
    domain::{
        account::Act,
        alert::{Alert, AlertProgress},
        control::ControlChange,
        dataset::Dataset,
        delivery::Delivery,
        entry::{Kind, SequencedEntry},
        event_id::EventIdCipher,
        row::Thesis,
    },
    log::{
        fan_out::FAN_OUT,
        projection::{Projector, ROWS},
        writer::DERIVED,
    },
    store::{SharedBackend, Table, Value, schema},
    tables::{
        audit, audit_chain, control,
        delivery_rows::{self, LOGGED, QUEUED},
        generation::event_id_key,
        log::{LogStore, decode, payload},
        theses::ThesisStore,
    },
    tests::{faulty::MemoryStore, harness::ids},
};

pub(in crate::tests) type Logs = BTreeMap<String, Vec<(u64, bytes::Bytes)>>;

/// Every log, without a gap, up to its head.
pub(in crate::tests) fn logs(store: &MemoryStore) -> Logs {
    let mut logs = Logs::new();
    let mut heads = BTreeMap::new();
    for (key, row) in store.all(&schema::EVENT_LOG) {
        let name = key[0].text().to_owned();
        if key[2].int() < 0 {
            heads.insert(name, row.version.unsigned_abs());
        } else {
            logs.entry(name).or_default().push((key[2].int().unsigned_abs(), payload(row).unwrap()));
        }
    }
    assert_eq!(logs.keys().collect::<Vec<_>>(), heads.keys().collect::<Vec<_>>());
    for (name, entries) in &logs {
        assert!(entries.iter().zip(1..).all(|((seq, _), expected)| *seq == expected), "log {name} has a gap");
        assert_eq!(entries.len() as u64, heads[name], "log {name} does not end at its head");
    }
    logs
}

/// The rows of the audit log that follow from the control log, by key, with the sequence numbers of their entries.
pub(super) fn audit_rows(log: &[(u64, bytes::Bytes)]) -> BTreeMap<String, (u64, bytes::Bytes)> {
    let (mut rows, mut chains) = (BTreeMap::new(), BTreeMap::new());
    for (seq, body) in log {
        for row in control::entry_changes(*seq, body.clone()).unwrap().1 {
            let chain = row.act.organization_id.clone().map(|organization| {
                let hash = chains.entry(organization).or_insert_with(|| vec![0; 32]);
                *hash = audit_chain::next_hash(hash, &row);
                hash.clone()
            });
            let change = audit::change(row.at, &row.id, &Act { chain, ..row.act });
            rows.insert(format!("{:?}", change.key), (*seq, change.body.unwrap()));
        }
    }
    rows
}

pub(in crate::tests) fn entries(bodies: &[(u64, bytes::Bytes)]) -> Vec<SequencedEntry> {
    bodies.iter().map(|(seq, body)| SequencedEntry { seq: *seq, entry: decode(*seq, body.clone()).unwrap() }).collect()
}

/// The deliveries, except those whose webhook was deleted before they were queued: nobody sees them.
pub(in crate::tests) fn deliveries(store: &MemoryStore) -> Vec<Delivery> {
    let (mut queued, mut rows) = (BTreeSet::new(), Vec::new());
    for (key, row) in store.all(&schema::DELIVERY) {
        let (webhook, at, id) = (key[0].text(), key[3].int(), key[4].text());
        match key[2].int() {
            QUEUED => {
                queued.insert(id.to_owned());
            }
            LOGGED => rows.push(delivery_rows::decode(webhook, at, id, row.body).unwrap()),
            _ => {}
        }
    }
    let mut deleted = BTreeSet::new();
    for (_, body) in logs(store).remove(CONTROL_LOG).unwrap_or_default() {
        for change in control::decode(body).unwrap() {
            if let ControlChange::WebhookDeleted(id) = change {
                deleted.insert(id);
            }
        }
    }
    let is_kept = |row: &Delivery| row.is_over() || queued.contains(&row.id) || !deleted.contains(&row.webhook_id);
    rows.retain(is_kept);
    rows
}

/// The alerts that exist after the control log.
pub(super) fn alerts(log: &[(u64, bytes::Bytes)]) -> Vec<Alert> {
    let mut alerts = BTreeMap::new();
    for (_, body) in log {
        for change in control::decode(body.clone()).unwrap() {
            match change {
                ControlChange::Alert(row) => drop(alerts.insert(row.id.clone(), row)),
                ControlChange::AlertDeleted(id) => drop(alerts.remove(&id)),
                _ => {}
            }
        }
    }
    alerts.into_values().collect()
}

/// Describes the alerts that wait although the time of their wait is over.
pub(super) fn due_alerts(store: &MemoryStore, now: i64) -> String {
    let rows = store.all(&schema::ALERT_PROGRESS).into_iter();
    let mut waiting: BTreeMap<String, AlertProgress> =
        rows.map(|(key, row)| (key[1].text().to_owned(), AlertProgress::decode(row.body).unwrap())).collect();
    waiting.retain(|_, progress| progress.waits_since.is_some());
    if waiting.is_empty() {
        return String::new();
    }
    let mut alerts = alerts(&logs(store).remove(CONTROL_LOG).unwrap_or_default());
    let is_due = |alert: &Alert| alert.due_at(waiting.get(&alert.id)?).map(|due_at| due_at <= now);
    alerts.retain(|alert| is_due(alert) == Some(true));
    alerts.iter().map(|alert| format!("; alert {} still waits", alert.id)).collect()
}

/// The checkpoint of a projection of a log; 0 if there is none.
fn checkpoint(store: &MemoryStore, log: &str, projection: &str) -> i64 {
    let mut done = 0;
    store.each(&schema::LOG_CHECKPOINT, |partition, clustering, version| {
        if partition[0].text() == log && clustering[0].text() == projection {
            done = version;
        }
    });
    done
}

/// Describes the pending work; includes derived events only on request, since they may have to wait.
pub(super) fn pending_work(store: &MemoryStore, derived: bool) -> String {
    let mut heads: BTreeMap<String, i64> = BTreeMap::new();
    store.each(&schema::EVENT_LOG, |partition, clustering, version| {
        if clustering[0].int() < 0 {
            heads.insert(partition[0].text().to_owned(), version);
        }
    });
    heads.remove(CONTROL_LOG);
    let mut pending = Vec::new();
    let control_log = logs(store).remove(CONTROL_LOG).unwrap_or_default();
    let judged: BTreeSet<Dataset> =
        alerts(&control_log).iter().flat_map(|alert| alert.counted().datasets().to_vec()).collect();
    for (name, head) in heads {
        let judged = judged.iter().any(|dataset| dataset.name() == name).then_some(JUDGED);
        for projection in [ROWS, FAN_OUT].into_iter().chain(derived.then_some(DERIVED)).chain(judged) {
            let done = checkpoint(store, &name, projection);
            if done != head {
                pending.push(format!("{projection} of {name} at {done} of {head}"));
            }
        }
    }
    let mut disabled = BTreeSet::new();
    for (_, body) in control_log {
        for change in control::decode(body).unwrap() {
            if let ControlChange::Webhook(row) = change
                && row.status != i32::from(WebhookStatus::Enabled)
            {
                disabled.insert(row.id);
            }
        }
    }
    // Deliveries to a disabled webhook keep waiting.
    let waiting = |row: &&Delivery| !row.is_over() && !disabled.contains(&row.webhook_id);
    pending.extend(deliveries(store).iter().filter(waiting).map(|row| format!("{row:?}")));
    pending.join("; ")
}

/// Writes the rows of the logs into `again`, beyond those written there before.
pub(super) async fn replay(store: &MemoryStore, again: &Arc<MemoryStore>) -> Vec<(Dataset, Vec<SequencedEntry>)> {
    let mut all = Vec::new();
    let event_ids = EventIdCipher::new(event_id_key(store, ids(0).as_ref()).await.unwrap(), "");
    for (name, bodies) in logs(store).iter().filter(|(name, _)| *name != CONTROL_LOG) {
        let entries = entries(bodies);
        let backend: SharedBackend = again.clone();
        let done = LogStore::new(backend.clone()).checkpoint(name, ROWS).await.unwrap();
        let projector = Projector::new(backend.clone(), ThesisStore::new(backend), name.clone(), event_ids.clone());
        let (written, new) = entries.split_at(usize::try_from(done).unwrap());
        projector.skip_entries(written);
        projector.project(new).await.unwrap();
        all.push((Dataset::parse(name).unwrap(), entries));
    }
    all
}

/// Readers get each thesis as its last entry in the log has it. A comparison of tables does not show that where the
/// rows of theses have no bodies.
pub(super) async fn recount_theses(rows: &ThesisStore, all: &[(Dataset, Vec<SequencedEntry>)]) {
    for (dataset, entries) in all {
        let name = dataset.to_string();
        let logged = entries.iter().filter_map(|of| of.entry.kind.clone().and_then(Kind::into_thesis));
        let theses: BTreeMap<String, Thesis> = logged.map(|thesis| (thesis.id.clone(), thesis)).collect();
        let keys: Vec<(&str, &str)> = theses.keys().map(|id| (name.as_str(), id.as_str())).collect();
        let found = rows.theses(&keys).await.unwrap();
        let found: Vec<Option<&Thesis>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, theses.values().map(Some).collect::<Vec<_>>(), "theses of {name}");
    }
}

/// The text of a row, as readers get it; without a row it has no fields.
pub(super) async fn stored_row(rows: &ThesisStore, table: &Table, key: &[Value]) -> String {
    let keys = [(key[0].text(), key[1].text())];
    match table.name {
        "thesis" => format!("{:?}", rows.theses(&keys).await.unwrap()),
        "profile" => format!("{:?}", rows.profiles(&keys).await.unwrap()),
        _ => format!("{:?}", rows.tokens(&keys).await.unwrap()),
    }
}

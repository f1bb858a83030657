//! Unconditional writes.

use bytes::Bytes;

use super::{deletion, fresh, put, slice, stored};
use crate::{
    domain::alert::{Alert, AlertChange, AlertProgress},
    key,
    store::{
        Change, Scan, SharedBackend,
        schema::{AUTHOR, EVENT, LOG_CHECKPOINT, PROFILE, THESIS, TOKEN_SYMBOL},
    },
    tables::alerts::{delete_progress, progress, progress_change},
};

pub(crate) async fn lower_version_does_nothing(backend: &SharedBackend) {
    let key = key![fresh("lower"), "a"];
    backend.apply(vec![put(&PROFILE, key.clone(), 5, "new")]).await.unwrap();
    backend.apply(vec![put(&PROFILE, key.clone(), 4, "old")]).await.unwrap();
    assert_eq!(stored(backend, &PROFILE, &key).await, Some((5, "new".to_owned())));
}

pub(crate) async fn equal_version_repeats(backend: &SharedBackend) {
    let key = key![fresh("equal"), "a"];
    for _ in 0..3 {
        backend.apply(vec![put(&PROFILE, key.clone(), 5, "same")]).await.unwrap();
        assert_eq!(stored(backend, &PROFILE, &key).await, Some((5, "same".to_owned())));
    }
}

pub(crate) async fn higher_version_wins(backend: &SharedBackend) {
    let key = key![fresh("higher"), "a"];
    for version in [1, 2, 1_700_000_000_000] {
        let text = version.to_string();
        backend.apply(vec![put(&PROFILE, key.clone(), version, &text)]).await.unwrap();
        assert_eq!(stored(backend, &PROFILE, &key).await, Some((version, text)));
    }
}

pub(crate) async fn deletion_removes(backend: &SharedBackend) {
    let partition = key![fresh("deletion"), "S"];
    let row = |address: &str| [partition.clone(), key!["base", address]].concat();
    let puts = ["a", "b", "c"].map(|address| put(&TOKEN_SYMBOL, row(address), 1, address));
    backend.apply(puts.to_vec()).await.unwrap();
    backend.apply(vec![deletion(&TOKEN_SYMBOL, row("b"), 2), deletion(&TOKEN_SYMBOL, row("never"), 2)]).await.unwrap();
    assert_eq!(stored(backend, &TOKEN_SYMBOL, &row("b")).await, None);
    let all = Scan::all(&TOKEN_SYMBOL, partition.clone(), 10);
    assert_eq!(slice(backend, &all).await, [key!["base", "a"], key!["base", "c"]]);
    backend.apply(vec![put(&TOKEN_SYMBOL, row("b"), 3, "again")]).await.unwrap();
    assert_eq!(stored(backend, &TOKEN_SYMBOL, &row("b")).await, Some((3, "again".to_owned())));
}

pub(crate) async fn old_deletion_does_nothing(backend: &SharedBackend) {
    let key = key![fresh("late"), "a"];
    backend.apply(vec![put(&THESIS, key.clone(), 9, "kept")]).await.unwrap();
    backend.apply(vec![deletion(&THESIS, key.clone(), 8)]).await.unwrap();
    assert_eq!(stored(backend, &THESIS, &key).await, Some((9, "kept".to_owned())));
}

pub(crate) async fn progress_of_a_deleted_alert_is_gone(backend: &SharedBackend) {
    let dataset = fresh("alerts");
    let write = async |alert: &str, revision: u64, version: i64| {
        let alert = Alert { id: alert.to_owned(), ..Alert::default() };
        let progress = AlertProgress { revision, ..AlertProgress::default() };
        let change = AlertChange { alert, progress, value: None };
        backend.apply(vec![progress_change(&dataset, &change, version)]).await.unwrap();
    };
    let revisions = async || {
        let found = progress(backend, &dataset, &["al_1", "al_2"]).await.unwrap();
        found.iter().map(|progress| progress.revision).collect::<Vec<_>>()
    };
    write("al_1", 3, 10).await;
    write("al_2", 4, 8).await;
    assert_eq!(revisions().await, [3, 4]);
    for alert in ["al_1", "al_1", "al_3"] {
        delete_progress(backend, &dataset, alert, 10).await.unwrap();
    }
    assert_eq!(revisions().await, [0, 4]);
    if !backend.is_exclusive() {
        // An entry of another core was under way.
        write("al_1", 2, 9).await;
        assert_eq!(revisions().await, [0, 4]);
    }
    write("al_1", 1, 11).await;
    assert_eq!(revisions().await, [1, 4], "it was created again");
}

pub(crate) async fn order_of_arrival_does_not_matter(backend: &SharedBackend) {
    let dataset = fresh("order");
    let ids = ["a", "b", "c", "d"];
    let writers = (0..16).map(|writer| {
        let (backend, dataset) = (backend.clone(), dataset.clone());
        tokio::spawn(async move {
            for step in 0..5 {
                // Every writer goes through the versions in its own order.
                let version = (writer * 7 + step * 3) % 16 + 1;
                let changes = ids.map(|id| put(&AUTHOR, key![&dataset, id], version, &version.to_string()));
                backend.apply(changes.to_vec()).await.unwrap();
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|writer| writer.unwrap());
    for id in ids {
        assert_eq!(stored(backend, &AUTHOR, key![&dataset, id]).await, Some((16, "16".to_owned())));
    }
}

pub(crate) async fn one_apply_many_tables(backend: &SharedBackend) {
    let dataset = fresh("tables");
    let key = key![&dataset, "a"];
    let tables = [&PROFILE, &THESIS, &EVENT, &LOG_CHECKPOINT];
    backend.apply(tables.map(|table| put(table, key.clone(), 1, table.name)).to_vec()).await.unwrap();
    for table in tables {
        assert_eq!(stored(backend, table, &key).await, Some((1, table.name.to_owned())));
    }
    backend.apply(Vec::new()).await.unwrap();
}

pub(crate) async fn one_apply_many_versions(backend: &SharedBackend) {
    let dataset = fresh("versions");
    let ids: Vec<String> = (0..30).map(|number| format!("{number:02}")).collect();
    let put = |id: &String, version: i64| put(&AUTHOR, key![&dataset, id], version, &version.to_string());
    // Every second row is stored before.
    backend.apply(ids.iter().step_by(2).map(|id| put(id, 5)).collect()).await.unwrap();
    let changes = [3, 9, 7, 4].map(|version| ids.iter().rev().map(move |id| (id, version)));
    backend.apply(changes.into_iter().flatten().map(|(id, version)| put(id, version)).collect()).await.unwrap();
    for id in &ids {
        assert_eq!(stored(backend, &AUTHOR, key![&dataset, id]).await, Some((9, "9".to_owned())), "{id}");
    }
}

pub(crate) async fn expiring_rows_are_there(backend: &SharedBackend) {
    let key = key![fresh("ttl"), "a"];
    let body = Some(Bytes::from_static(b"body"));
    let change = Change { table: &AUTHOR, key: key.clone(), version: 1, body, ttl: Some(3_600) };
    backend.apply(vec![change]).await.unwrap();
    assert_eq!(stored(backend, &AUTHOR, &key).await, Some((1, "body".to_owned())));
    // Written again without a TTL, the row stays.
    backend.apply(vec![put(&AUTHOR, key.clone(), 2, "for good")]).await.unwrap();
    backend.sweep(0).await.unwrap();
    assert_eq!(stored(backend, &AUTHOR, &key).await, Some((2, "for good".to_owned())));
}

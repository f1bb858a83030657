//! Keys of every shape.

use std::ops::Bound::{Excluded, Included};

use super::{fresh, put, slice, stored};
use crate::{
    key,
    store::{
        Scan, SharedBackend,
        schema::{EVENT, INDEX_BUCKET, TOKEN_SYMBOL, UPSTREAM_REF},
    },
};

/// Texts in the order of their bytes: some are prefixes of others, some contain bytes that an encoding may use itself.
const SORTED: [&str; 12] = ["", "\0", "\0\0", "\0a", "\u{1}", "\u{2}", "a", "a\0", "a\u{1}", "ab", "é", "\u{10ffff}"];

pub(crate) async fn texts_sort_by_bytes(backend: &SharedBackend) {
    let partition = key![fresh("texts"), "S"];
    let mut keys = Vec::new();
    for one in SORTED {
        keys.extend(SORTED.map(|other| key![one, other]));
    }
    let changes = keys.iter().rev().map(|key| put(&TOKEN_SYMBOL, [partition.clone(), key.clone()].concat(), 1, ""));
    backend.apply(changes.collect()).await.unwrap();
    let all = Scan::all(&TOKEN_SYMBOL, partition, 1_000);
    assert_eq!(slice(backend, &all).await, keys);
    for (n, text) in SORTED.into_iter().enumerate() {
        let at = n * SORTED.len();
        let within = Scan { from: Included(key![text]), to: Included(key![text]), ..all.clone() };
        assert_eq!(slice(backend, &within).await, keys[at..at + SORTED.len()], "{text:?}");
        let after = Scan { from: Excluded(key![text]), ..all.clone() };
        assert_eq!(slice(backend, &after).await, keys[at + SORTED.len()..], "{text:?}");
    }
}

pub(crate) async fn integers_sort_by_value(backend: &SharedBackend) {
    let partition = key![fresh("integers"), "all"];
    let sorted = [i64::MIN, -256, -1, 0, 1, 255, 256, i64::MAX];
    let changes =
        sorted.iter().rev().map(|bucket| put(&INDEX_BUCKET, [partition.clone(), key![*bucket]].concat(), 1, ""));
    backend.apply(changes.collect()).await.unwrap();
    let all = Scan::all(&INDEX_BUCKET, partition, 100);
    assert_eq!(slice(backend, &all).await, sorted.map(|bucket| key![bucket]));
    for (n, bucket) in sorted.into_iter().enumerate() {
        let from = Scan { from: Included(key![bucket]), ..all.clone() };
        assert_eq!(slice(backend, &from).await.len(), sorted.len() - n);
        let below = Scan { to: Excluded(key![bucket]), reverse: true, limit: 1, ..all.clone() };
        assert_eq!(
            slice(backend, &below).await,
            n.checked_sub(1).map(|n| key![sorted[n]]).into_iter().collect::<Vec<_>>()
        );
    }
}

pub(crate) async fn partitions_do_not_mix(backend: &SharedBackend) {
    let (dataset, longer) = (fresh("p"), fresh("p"));
    let partitions =
        [key![&dataset, ""], key![&dataset, "a"], key![&dataset, "a\0"], key![&dataset, "ab"], key![&longer, "a"]];
    let changes = partitions
        .iter()
        .enumerate()
        .map(|(n, partition)| put(&TOKEN_SYMBOL, [partition.clone(), key!["c", n.to_string()]].concat(), 1, ""));
    backend.apply(changes.collect()).await.unwrap();
    for (n, partition) in partitions.into_iter().enumerate() {
        for reverse in [false, true] {
            let scan = Scan { reverse, ..Scan::all(&TOKEN_SYMBOL, partition.clone(), 10) };
            assert_eq!(slice(backend, &scan).await, [key!["c", n.to_string()]]);
        }
    }
}

pub(crate) async fn odd_texts_come_back(backend: &SharedBackend) {
    let dataset = fresh("odd");
    let changes = SORTED.map(|text| put(&UPSTREAM_REF, key![&dataset, text], 1, text));
    backend.apply(changes.to_vec()).await.unwrap();
    for text in SORTED {
        assert_eq!(stored(backend, &UPSTREAM_REF, key![&dataset, text]).await, Some((1, text.to_owned())));
        // The same key in another table is another row.
        assert_eq!(stored(backend, &EVENT, key![&dataset, text]).await, None);
    }
}

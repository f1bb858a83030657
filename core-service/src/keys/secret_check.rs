//! Checks whether the core's secret key is the one with which the store was created.
//!
//! With another key no API key, webhook secret or session of the store can be used, and nothing else would show the
//! fault: a copy would begin without its customers. So the first start leaves a keyed hash of a fixed text in the
//! store.
//!
//! A store of an earlier version has no hash. There the check decrypts webhook secrets. API keys cannot help: the store
//! holds only their hashes.

use std::{iter, ops::Bound};

use bytes::Bytes;
use subtle::ConstantTimeEq as _;

use super::key_ring::{KeyRing, SealPurpose};
use crate::{
    domain::control::ControlChange,
    key,
    store::{
        Backend, ConditionalWrite, Consistency, Expect, Row, Scan, StoreError, StoreResult, Transaction,
        schema::ACCOUNT,
    },
    tables::{control, generation::SERVICE},
};

/// The item of the hash.
const HASH: &str = "secret_key";

/// The result of the check of a secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The store was created with this key.
    Right,
    /// Nothing in the store depends on the key.
    Unknown,
    /// The hash is of another key.
    Other,
    /// There is no hash, and this key decrypts none of the webhook secrets that were read.
    Undecrypted,
    /// The store was created with another key, and now continues with this one.
    Replaced,
}

/// The scans that a check needs: the hash, and a webhook of each partition. If there is a hash, it alone counts.
#[must_use]
pub fn scans() -> Vec<Scan> {
    let hash = Bound::Included(key![HASH]);
    let hash = Scan { from: hash.clone(), to: hash, ..Scan::all(&ACCOUNT, key![SERVICE], 1) };
    iter::once(hash).chain(control::sample_webhooks()).collect()
}

/// Judges a key by the rows of [`scans`]. One webhook is enough: others may be older than a key that was lost before
/// there was a hash.
#[must_use]
pub fn judge(rows: &[Row], keys: &KeyRing) -> Fit {
    if let Some(hash) = hash_in(rows) {
        return if is_of(&hash.body, keys) { Fit::Right } else { Fit::Other };
    }
    // The check skips an unreadable row. The start fails on it later, with its own error.
    let changes = rows.iter().filter_map(|row| control::decode(row.body.clone()).ok()).flatten();
    let decrypted: Vec<bool> = changes
        .filter_map(|change| match change {
            ControlChange::Webhook(webhook) => {
                Some(keys.open(SealPurpose::WebhookSecret(&webhook.id), &webhook.secret).is_some())
            }
            _ => None,
        })
        .collect();
    if decrypted.contains(&true) {
        Fit::Right
    } else if decrypted.is_empty() {
        Fit::Unknown
    } else {
        Fit::Undecrypted
    }
}

/// Judges the key with which a core starts. A store without a hash gets one unless the webhooks contradict the key.
/// With `replace` the store continues with this key in any case. Of cores that start at once with different keys one
/// gets [`Fit::Right`] or [`Fit::Replaced`].
pub async fn fits(backend: &dyn Backend, keys: &KeyRing, replace: bool) -> StoreResult<Fit> {
    settle_hash(backend, keys, &read(backend).await?, replace).await
}

async fn read(backend: &dyn Backend) -> StoreResult<Vec<Row>> {
    let mut rows = Vec::new();
    for scan in scans() {
        rows.extend(backend.scan(&scan).await?);
        if hash_in(&rows).is_some() {
            break;
        }
    }
    Ok(rows)
}

async fn settle_hash(backend: &dyn Backend, keys: &KeyRing, rows: &[Row], replace: bool) -> StoreResult<Fit> {
    let (hash, fit) = (hash_in(rows), judge(rows, keys));
    let (stays, written_fit) = match fit {
        Fit::Right | Fit::Replaced => (hash.is_some(), Fit::Right),
        Fit::Unknown => (false, Fit::Right),
        Fit::Other | Fit::Undecrypted => (!replace, Fit::Replaced),
    };
    if stays {
        return Ok(fit);
    }
    let write = ConditionalWrite {
        clustering: key![HASH],
        expect: hash.map_or(Expect::Absent, |hash| Expect::Version(hash.version)),
        version: hash.map_or(1, |hash| hash.version + 1),
        body: Some(Bytes::copy_from_slice(keys.store_check())),
    };
    let transaction = Transaction { table: &ACCOUNT, partition: key![SERVICE], writes: vec![write], ttl: None };
    let written = backend.transact(transaction).await;
    if !matches!(written, Ok(false) | Err(StoreError::InDoubt(_))) {
        return written.map(|_| written_fit);
    }
    // Another core was faster, perhaps with the same key; or a write in doubt was made.
    let found = backend.get(&ACCOUNT, &key![SERVICE, HASH], Consistency::Serial).await?;
    if found.is_some_and(|hash| is_of(&hash.body, keys)) { Ok(written_fit) } else { written.map(|_| Fit::Other) }
}

fn hash_in(rows: &[Row]) -> Option<&Row> {
    rows.iter().find(|row| row.clustering == key![HASH])
}

fn is_of(hash: &[u8], keys: &KeyRing) -> bool {
    hash.ct_eq(keys.store_check()).into()
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;
    use crate::{
        domain::{account::Act, control::Webhook},
        store::SharedBackend,
        tests::{
            faulty::{Fault, Process},
            harness::{ManualClock, NOON, ids, memory},
        },
    };

    fn ring(key: u8) -> KeyRing {
        KeyRing::new(&[key; 32], ids(1))
    }

    fn store() -> SharedBackend {
        memory(&ManualClock::new())
    }

    async fn start(backend: &SharedBackend, key: u8, replace: bool) -> Fit {
        fits(backend.as_ref(), &ring(key), replace).await.unwrap()
    }

    /// A store of a version without the hash, with a webhook for each of the keys.
    async fn older(keys: &[u8]) -> SharedBackend {
        let backend = store();
        for (seq, key) in (1..).zip(keys) {
            let id = format!("wh_{seq}");
            let secret = ring(*key).seal(SealPurpose::WebhookSecret(&id), b"whsec_x");
            let webhook = Webhook { id, secret, ..Webhook::default() };
            let entry = control::encode(NOON, vec![ControlChange::Webhook(webhook)], Act::default());
            let (rows, _) = control::entry_changes(seq, entry).unwrap();
            backend.apply(rows.collect()).await.unwrap();
        }
        backend
    }

    #[tokio::test]
    async fn only_the_first_key_fits_until_it_is_replaced() {
        let backend = store();
        for (key, replace, fit) in [
            (1, false, Fit::Right),
            (1, false, Fit::Right),
            (2, false, Fit::Other),
            (1, false, Fit::Right),
            (2, true, Fit::Replaced),
            (2, true, Fit::Right),
            (2, false, Fit::Right),
            (1, false, Fit::Other),
        ] {
            assert_eq!(start(&backend, key, replace).await, fit, "{key}");
        }
    }

    #[tokio::test]
    async fn a_store_without_a_hash_takes_only_a_key_that_decrypts_a_webhook() {
        let backend = older(&[1, 1]).await;
        for _ in 0..2 {
            assert_eq!(start(&backend, 2, false).await, Fit::Undecrypted);
            assert_eq!(hash_in(&read(backend.as_ref()).await.unwrap()), None);
        }
        assert_eq!(start(&backend, 1, false).await, Fit::Right);
        assert!(hash_in(&read(backend.as_ref()).await.unwrap()).is_some());
        assert_eq!(start(&backend, 2, false).await, Fit::Other);

        assert_eq!(start(&older(&[1]).await, 2, true).await, Fit::Replaced);
        // Key 1 was lost before there was a hash.
        let mixed = older(&[1, 2]).await;
        assert_eq!(start(&mixed, 3, false).await, Fit::Undecrypted);
        assert_eq!(start(&mixed, 2, false).await, Fit::Right);
    }

    #[tokio::test]
    async fn of_several_keys_at_once_one_fits() {
        for (replace, fit) in [(false, Fit::Right), (true, Fit::Replaced)] {
            let backend = store();
            if replace {
                start(&backend, 9, false).await;
            }
            // Both have looked before one of them writes.
            let (one, other) = (read(backend.as_ref()).await.unwrap(), read(backend.as_ref()).await.unwrap());
            assert_eq!(settle_hash(backend.as_ref(), &ring(1), &one, replace).await.unwrap(), fit);
            assert_eq!(settle_hash(backend.as_ref(), &ring(2), &other, replace).await.unwrap(), Fit::Other);
            assert_eq!(settle_hash(backend.as_ref(), &ring(1), &other, replace).await.unwrap(), fit);
            assert_eq!((start(&backend, 1, false).await, start(&backend, 2, false).await), (Fit::Right, Fit::Other));
        }
        let backend = store();
        let all = join_all((1..=8).map(|key| start(&backend, key, false))).await;
        assert_eq!(all.iter().filter(|fit| **fit == Fit::Right).count(), 1, "{all:?}");
    }

    #[tokio::test]
    async fn a_write_in_doubt_counts_if_it_was_written() {
        for (fault, is_written) in [(Fault::Done, true), (Fault::NotDone, false)] {
            let backend = store();
            let process = Process::new(backend.clone());
            process.count(false);
            process.set_chooser(Box::new(move |_, _| Some(fault)));
            let outcome = fits(process.as_ref(), &ring(1), false).await;
            match outcome {
                Ok(fit) => assert!(is_written && fit == Fit::Right, "{fit:?}"),
                Err(error) => assert!(!is_written && matches!(error, StoreError::InDoubt(_)), "{error}"),
            }
            assert_eq!(hash_in(&read(backend.as_ref()).await.unwrap()).is_some(), is_written);
        }
    }
}

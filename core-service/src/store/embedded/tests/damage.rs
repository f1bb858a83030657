//! Bytes that change by themselves, pages that change places, files that end too soon: reported, never taken for data.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use thesis_net::clock::SystemIdSource;

use super::{super::*, Fixed, append, disk::Disk, rows_follow};
use crate::{
    key,
    store::{
        ConditionalWrite, Expect,
        schema::{EVENT_LOG, IDEMPOTENCY, PROFILE, TOKEN_SYMBOL},
    },
};

const PAGE: usize = 4096;

/// Repeatable random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 20) % below as u64).unwrap()
    }
}

fn open(disk: &Disk, verify: bool) -> Result<EmbeddedStore, OpenError> {
    open_at(disk, verify, &Arc::default())
}

fn open_at(disk: &Disk, verify: bool, clock: &Arc<Fixed>) -> Result<EmbeddedStore, OpenError> {
    // A cache too small to hide the disk.
    let options = Options { cache_bytes: 0, verify_bytes: if verify { u64::MAX } else { 0 } };
    EmbeddedStore::open_with_backends(disk.files(), options, clock.clone(), &SystemIdSource)
}

type Rows = BTreeMap<Vec<Value>, Row>;

async fn fill(store: &EmbeddedStore) -> Rows {
    let mut rows = Rows::new();
    for batch in 0..10 {
        let mut changes = Vec::new();
        for n in 0..40 {
            let clustering = key!["c", format!("{batch}.{n}")];
            let key = [key!["d", "S"], clustering.clone()].concat();
            let body: bytes::Bytes = vec![batch; 20 + 97 * usize::from(batch) % 900].into();
            rows.insert(key.clone(), Row { clustering, body: body.clone(), version: 5 });
            changes.push(Change { table: &TOKEN_SYMBOL, key, version: 5, body: Some(body), ttl: None });
        }
        store.apply(changes).await.unwrap();
        let write = ConditionalWrite {
            clustering: vec![],
            expect: Expect::Absent,
            version: 1,
            body: Some(vec![batch; 5_000].into()),
        };
        let partition = key!["d", batch.to_string()];
        store.transact(Transaction { table: &IDEMPOTENCY, partition, writes: vec![write], ttl: None }).await.unwrap();
        assert!(append(store, batch.into()).await.unwrap());
    }
    rows
}

/// Reads every row: as it was written, or an error that names the file. Gives the number of errors.
async fn compare(store: &EmbeddedStore, rows: &Rows, what: &str) -> usize {
    let mut reported = 0;
    let mut report = |error: StoreError| {
        assert!(error.to_string().contains("the given disk"), "{what}: {error}");
        reported += 1;
    };
    for (key, row) in rows {
        match store.get(&TOKEN_SYMBOL, key, Consistency::Quorum).await {
            Ok(found) => assert_eq!(found.as_ref(), Some(row), "{what}: {key:?}"),
            Err(error) => report(error),
        }
    }
    match store.scan(&Scan::all(&TOKEN_SYMBOL, key!["d", "S"], usize::MAX)).await {
        Ok(found) => assert!(found.iter().eq(rows.values()), "{what}: a scan"),
        Err(error) => report(error),
    }
    for batch in 0..10_u8 {
        match store.get(&IDEMPOTENCY, &key!["d", batch.to_string()], Consistency::Quorum).await {
            Ok(found) => assert!(found.is_some_and(|row| row.body.iter().all(|byte| *byte == batch)), "{what}"),
            Err(error) => report(error),
        }
    }
    match store.scan(&Scan::all(&EVENT_LOG, key!["d", 0], usize::MAX)).await {
        Ok(found) => assert!(found.iter().all(|row| row.body.iter().all(|byte| *byte == 9)), "{what}: the log"),
        Err(error) => report(error),
    }
    reported
}

#[tokio::test]
async fn damage_is_reported_and_never_read_as_data() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut dice = Dice(seed);
    let disk = Disk::empty();
    let store = open(&disk, false).unwrap();
    let rows = fill(&store).await;
    store.close().await.unwrap();
    drop(store);
    let clean = disk.bytes();
    // The bytes that a killed process leaves are as good.
    let store = open(&disk, false).unwrap();
    super::apply(&store, "late", 1).await.unwrap();
    super::insert(&store, "late").await.unwrap();
    let killed = disk.bytes();
    drop(store);
    let used = |bytes: &[u8]| bytes.chunks(PAGE).rposition(|page| page.iter().any(|byte| *byte != 0)).unwrap() + 1;
    let (mut refused, mut reported) = (0, 0);
    for round in 0..48 {
        let whole = if round % 2 == 0 { &clean } else { &killed };
        let verify = round % 4 < 2;
        let mut damaged = whole.clone();
        // The rows have more pages.
        let in_log = dice.roll(4) == 0;
        let bytes = if in_log { &mut damaged.log } else { &mut damaged.rows };
        let pages = used(bytes);
        let what = match round % 5 {
            0 => {
                let (a, b) = (dice.roll(pages), dice.roll(pages));
                for at in 0..PAGE {
                    bytes.swap(a * PAGE + at, b * PAGE + at);
                }
                format!("pages {a} and {b} swapped")
            }
            1 => {
                let len = dice.roll(bytes.len());
                bytes.truncate(len);
                format!("cut at {len}")
            }
            2 => {
                // The pages by which all others are found.
                let at = dice.roll(2 * PAGE);
                bytes[at] ^= 1 << dice.roll(8);
                format!("a bit of byte {at}")
            }
            3 => {
                let page = dice.roll(pages);
                bytes[page * PAGE..(page + 1) * PAGE].fill(0);
                format!("page {page} empty")
            }
            _ => {
                let at = dice.roll(pages * PAGE);
                bytes[at] ^= 1 << dice.roll(8);
                format!("a bit of byte {at}")
            }
        };
        // Damaged before the start or while open: a debug build of the engine reads every page when it opens.
        let running = round % 4 == 3;
        let what = format!("TEST_SEED={seed} round {round}: {what}, log {in_log}, verify {verify}, running {running}");
        let disk = Disk::new(if running { whole.clone() } else { damaged.clone() });
        match open(&disk, verify) {
            Err(error) => {
                assert!(error.to_string().contains("the given disk is damaged"), "{what}: {error}");
                refused += 1;
            }
            Ok(store) => {
                if running {
                    disk.spoil(damaged);
                }
                reported += compare(&store, &rows, &what).await.min(1);
                // A write is done or refused, and rows without damage can still be read.
                drop(super::insert(&store, "later").await);
                compare(&store, &rows, &what).await;
            }
        }
    }
    println!("{refused} refused at the start, {reported} reported at a read");
    assert!(refused > 10 && reported > 2);
}

/// A loss of power keeps any part of the unsynced writes; no such file is taken for damaged.
#[tokio::test]
async fn what_a_loss_of_power_leaves_is_no_damage() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut dice = Dice(seed);
    for round in 0..10 {
        let (mut disk, clock) = (Disk::empty(), Arc::<Fixed>::default());
        let mut store = open_at(&disk, false, &clock).unwrap();
        let mut durable: Vec<String> = Vec::new();
        let mut head = 0;
        for step in 0..12 {
            let id = format!("{round}.{step}");
            match dice.roll(4) {
                3 => {
                    assert!(append(&store, head).await.unwrap());
                    head += 1;
                }
                0 => super::apply(&store, &id, 5).await.unwrap(),
                1 => {
                    super::insert(&store, &id).await.unwrap();
                    durable.push(id);
                }
                _ => {
                    // Full in the middle of a write.
                    disk.room(i64::try_from(dice.roll(12)).unwrap());
                    if super::insert(&store, &id).await.is_ok() {
                        durable.push(id);
                    }
                    // The disk is tried again.
                    clock.0.fetch_add(1_000, Ordering::SeqCst);
                }
            }
            if dice.roll(3) == 0 {
                let left = disk.after_power_loss_but(|| dice.roll(2) == 0);
                drop(store);
                disk = left;
                let opened = open_at(&disk, round % 2 == 0, &clock);
                store = opened.unwrap_or_else(|error| panic!("TEST_SEED={seed} {round}: {error}"));
            }
            disk.room(i64::MAX);
            assert_eq!(rows_follow(&store, 0).await, head, "TEST_SEED={seed} {round}");
            for id in &durable {
                assert!(super::inserted(&store, id).await, "TEST_SEED={seed} {round}: {id} is lost");
            }
        }
        assert!(store.all(&PROFILE).await.is_ok());
    }
}

//! The store as one core sees it. Its rows are those of all cores, and behave as those of a quorum do. Its calls take
//! time, wait while the core's nodes stand, and fail. A write that failed may have happened, or happens later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::{
    store::{
        Backend, Change, Consistency, Row, Scan, SharedBackend, StoreError, StoreResult, Table, Transaction, Value,
    },
    tests::{
        faults::Dice,
        faulty::{Fault, MemoryStore, Process, StoreCall},
    },
};

/// Interval in which a call checks whether the nodes work again.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum milliseconds of the way to the store, and of the way back.
const USUAL_MS: usize = 2;
/// Maximum milliseconds until a call fails, beyond its ways.
const MAX_TIMEOUT_MS: usize = 1_500;
/// Maximum milliseconds until a versioned write happens whose call failed long before.
const MAX_LATE_MS: usize = 4_000;

/// The faults of the store for a core. It outlives the core's process.
#[derive(Default)]
pub(super) struct StoreFaults {
    /// True while calls wait.
    pub(super) hangs: AtomicBool,
    /// Maximum milliseconds of each way beyond the usual ones.
    pub(super) slow_ms: AtomicUsize,
    /// The number of failing calls in a thousand.
    pub(super) failing: AtomicUsize,
}

impl StoreFaults {
    fn choose(&self, dice: &mut Dice, called: StoreCall) -> Option<Fault> {
        if dice.roll(1_000) >= self.failing.load(Ordering::Relaxed) {
            return None;
        }
        // Processes end by the schedule alone.
        let fails = |fault: &Fault| matches!(fault, Fault::NotDone | Fault::Done | Fault::Half);
        let faults: Vec<Fault> = called.faults(false).into_iter().filter(fails).collect();
        Some(faults[dice.roll(faults.len())])
    }
}

/// The store of one process.
pub(super) struct StoreView {
    process: Arc<Process>,
    rows: Arc<MemoryStore>,
    faults: Arc<StoreFaults>,
    dice: Mutex<Dice>,
}

impl StoreView {
    pub(super) fn open(rows: Arc<MemoryStore>, faults: Arc<StoreFaults>, seed: u64) -> Arc<Self> {
        let process = Process::new(Arc::clone(&rows) as SharedBackend);
        let (choosing, mut dice) = (Arc::clone(&faults), Dice(!seed));
        process.set_chooser(Box::new(move |_, called| choosing.choose(&mut dice, called)));
        process.count(true);
        Arc::new(Self { process, rows, faults, dice: Mutex::new(Dice(seed)) })
    }

    async fn pause(&self, max_ms: usize) {
        let ms = self.dice.lock().roll(max_ms + 1);
        if ms > 0 {
            sleep(Duration::from_millis(ms as u64)).await;
        }
    }

    /// Decides whether a node keeps a versioned write that failed, and does it later; returns the milliseconds until
    /// then. Conditional writes are not kept.
    fn lateness(&self) -> Option<usize> {
        let mut dice = self.dice.lock();
        // Most failing writes do not happen later.
        (dice.roll(4_000) < self.faults.failing.load(Ordering::Relaxed)).then(|| dice.roll(MAX_LATE_MS))
    }

    async fn travel(&self) {
        while self.faults.hangs.load(Ordering::Relaxed) {
            sleep(POLL_INTERVAL).await;
        }
        self.pause(USUAL_MS + self.faults.slow_ms.load(Ordering::Relaxed)).await;
    }

    async fn call<T>(&self, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        self.travel().await;
        let result = call.await;
        if matches!(result, Err(StoreError::Unavailable(_) | StoreError::InDoubt(_))) {
            self.pause(MAX_TIMEOUT_MS).await;
        }
        self.travel().await;
        result
    }
}

#[async_trait]
impl Backend for StoreView {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        self.call(self.process.get(table, key, consistency)).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.call(self.process.get_many(table, keys)).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        self.call(self.process.scan(scan)).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        if let Some(ms) = self.lateness() {
            let rows = Arc::clone(&self.rows);
            tokio::spawn(async move {
                sleep(Duration::from_millis(ms as u64)).await;
                rows.apply(changes).await
            });
            self.pause(MAX_TIMEOUT_MS).await;
            return Err(StoreError::InDoubt("a write timed out".to_owned()));
        }
        self.call(self.process.apply(changes)).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.call(self.process.transact(transaction)).await
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    async fn check(&self) -> StoreResult<()> {
        self.process.check().await
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        self.process.sweep(now_ms).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.process.close().await
    }
}

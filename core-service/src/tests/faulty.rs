//! A backend with faults, as a process sees them: a chosen call times out, or the process ends.

mod memory;

use std::{collections::BTreeSet, iter, sync::Arc, task::Poll};

use async_trait::async_trait;
use futures::future::try_join_all;
use parking_lot::Mutex;

pub(crate) use self::memory::MemoryStore;
use crate::store::{
    Backend, Change, Consistency, Row, Scan, SharedBackend, StoreError, StoreResult, Table, Transaction, Value,
};

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call is not done, and reports a timeout.
    NotDone,
    /// The call is done, and reports a timeout.
    Done,
    /// The changes of every second partition are applied, and the call reports a timeout: an `apply` is atomic only for
    /// each partition.
    Half,
    /// The process ends before the call.
    Ends,
    /// The process ends when the changes of every second partition are applied.
    EndsHalfway,
    /// The process ends before the call, and unsynced writes are lost.
    PowerLoss,
}

/// A call of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreCall {
    Read,
    /// An `apply` with this number of changes.
    Apply(usize),
    Transact,
    /// A `sync` of a store with one writer. Elsewhere it does nothing.
    Sync,
}

impl StoreCall {
    /// The faults that the call may have. An end before a read is the same as one before the next write.
    pub(crate) fn faults(self, exclusive: bool) -> Vec<Fault> {
        match self {
            Self::Read => vec![Fault::NotDone],
            _ if exclusive => vec![Fault::NotDone, Fault::Done, Fault::Ends, Fault::PowerLoss],
            Self::Apply(changes) if changes > 1 => {
                vec![Fault::NotDone, Fault::Done, Fault::Half, Fault::Ends, Fault::EndsHalfway]
            }
            _ => vec![Fault::NotDone, Fault::Done, Fault::Ends],
        }
    }
}

/// Decides the fault of every call that counts.
pub(crate) type Chooser = Box<dyn FnMut(usize, StoreCall) -> Option<Fault> + Send>;

#[derive(Default)]
struct ProcessState {
    /// Calls are counted, and may have faults.
    counts: bool,
    /// Reads count too.
    reads: bool,
    calls: Vec<StoreCall>,
    total: usize,
    /// Calls under way.
    running: usize,
    /// Tables with a write of a row that expires.
    expiring: BTreeSet<&'static str>,
    chooser: Option<Chooser>,
    ended: Option<Fault>,
}

/// One process on a backend.
pub(crate) struct Process {
    backend: SharedBackend,
    state: Mutex<ProcessState>,
}

impl Process {
    pub(crate) fn new(backend: SharedBackend) -> Arc<Self> {
        Arc::new(Self { backend, state: Mutex::default() })
    }

    /// Counts calls from now on. With `reads` it counts reads too: reads of a request, not of repeated checks.
    pub(crate) fn count(&self, reads: bool) {
        let mut state = self.state.lock();
        (state.counts, state.reads) = (true, reads);
    }

    /// Stops counting calls.
    pub(crate) fn rest(&self) {
        self.state.lock().counts = false;
    }

    /// Sets the function that decides the faults.
    pub(crate) fn set_chooser(&self, chooser: Chooser) {
        self.state.lock().chooser = Some(chooser);
    }

    /// The calls that counted.
    pub(crate) fn calls(&self) -> Vec<StoreCall> {
        self.state.lock().calls.clone()
    }

    /// The names of the tables to which the process wrote a row that expires, in calls that counted or not.
    pub(crate) fn expiring(&self) -> BTreeSet<&'static str> {
        self.state.lock().expiring.clone()
    }

    fn note_lives(&self, writes: impl Iterator<Item = (&'static Table, Option<u32>)>) {
        let expiring = writes.filter(|(_, ttl)| ttl.is_some()).map(|(table, _)| table.name);
        self.state.lock().expiring.extend(expiring);
    }

    /// The number of all calls, counted or not, and whether some are under way.
    pub(crate) fn busy(&self) -> (usize, bool) {
        let state = self.state.lock();
        (state.total, state.running > 0)
    }

    /// Waits for a call without letting paused time run ahead of a store that works on another thread.
    async fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        let _running = RunningCall::new(&self.state);
        loop {
            match futures::poll!(call.as_mut()) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => tokio::task::yield_now().await,
            }
        }
    }

    /// Ends the process.
    pub(crate) fn end(&self) {
        self.state.lock().ended.get_or_insert(Fault::Ends);
    }

    /// The fault that ended the process, if it ended.
    pub(crate) fn ended(&self) -> Option<Fault> {
        self.state.lock().ended
    }

    fn choose(&self, called: StoreCall) -> StoreResult<Option<Fault>> {
        let mut state = self.state.lock();
        state.total += 1;
        if state.ended.is_some() {
            return Err(StoreError::Unavailable("the process has ended".to_owned()));
        }
        if !state.counts || (called == StoreCall::Read && !state.reads) {
            return Ok(None);
        }
        let number = state.calls.len();
        state.calls.push(called);
        let fault = state.chooser.as_mut().and_then(|chooser| chooser(number, called));
        if let Some(Fault::Ends | Fault::EndsHalfway | Fault::PowerLoss) = fault {
            state.ended = fault;
        }
        Ok(fault)
    }

    fn read(&self) -> StoreResult<()> {
        match self.choose(StoreCall::Read)? {
            None => Ok(()),
            Some(_) => Err(StoreError::Unavailable("a read timed out".to_owned())),
        }
    }
}

/// A call under way, with or without a caller that waits for it.
struct RunningCall<'a>(&'a Mutex<ProcessState>);

impl<'a> RunningCall<'a> {
    fn new(state: &'a Mutex<ProcessState>) -> Self {
        state.lock().running += 1;
        Self(state)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

/// The changes of every second partition.
fn half(mut changes: Vec<Change>) -> Vec<Change> {
    let mut partitions: Vec<(&str, Vec<Value>)> = Vec::new();
    changes.retain(|change| {
        let partition = (change.table.name, change.key[..change.table.partition.len()].to_vec());
        let known = partitions.iter().position(|other| *other == partition);
        let number = known.unwrap_or_else(|| {
            partitions.push(partition);
            partitions.len() - 1
        });
        number % 2 == 0
    });
    changes
}

fn doubt<T>() -> StoreResult<T> {
    Err(StoreError::InDoubt("a write timed out".to_owned()))
}

#[async_trait]
impl Backend for Process {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        self.read()?;
        self.wait(self.backend.get(table, key, consistency)).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.read()?;
        self.wait(self.backend.get_many(table, keys)).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        self.read()?;
        self.wait(self.backend.scan(scan)).await
    }

    async fn scan_many(&self, scans: &[Scan]) -> StoreResult<Vec<Vec<Row>>> {
        if !self.backend.is_exclusive() {
            return try_join_all(scans.iter().map(|scan| self.scan(scan))).await;
        }
        self.read()?;
        self.wait(self.backend.scan_many(scans)).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        self.note_lives(changes.iter().map(|change| (change.table, change.ttl)));
        match self.choose(StoreCall::Apply(changes.len()))? {
            None => self.wait(self.backend.apply(changes)).await,
            Some(Fault::Done) => {
                self.wait(self.backend.apply(changes)).await?;
                doubt()
            }
            Some(Fault::Half | Fault::EndsHalfway) => {
                self.wait(self.backend.apply(half(changes))).await?;
                doubt()
            }
            Some(Fault::NotDone | Fault::Ends | Fault::PowerLoss) => doubt(),
        }
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.note_lives(iter::once((transaction.table, transaction.ttl)));
        match self.choose(StoreCall::Transact)? {
            None => self.wait(self.backend.transact(transaction)).await,
            Some(Fault::Done) => {
                self.wait(self.backend.transact(transaction)).await?;
                doubt()
            }
            Some(_) => doubt(),
        }
    }

    async fn transact_with(&self, transaction: Transaction, beside: Vec<Change>) -> StoreResult<bool> {
        if !self.backend.is_exclusive() {
            let holds = self.transact(transaction).await?;
            if holds && !beside.is_empty() {
                self.apply(beside).await?;
            }
            return Ok(holds);
        }
        let beside_lives = beside.iter().map(|change| (change.table, change.ttl));
        self.note_lives(iter::once((transaction.table, transaction.ttl)).chain(beside_lives));
        match self.choose(StoreCall::Transact)? {
            None => self.wait(self.backend.transact_with(transaction, beside)).await,
            Some(Fault::Done) => {
                self.wait(self.backend.transact_with(transaction, beside)).await?;
                doubt()
            }
            Some(_) => doubt(),
        }
    }

    fn is_exclusive(&self) -> bool {
        self.backend.is_exclusive()
    }

    async fn sync(&self) -> StoreResult<()> {
        if !self.is_exclusive() {
            return if self.ended().is_some() { doubt() } else { Ok(()) };
        }
        match self.choose(StoreCall::Sync)? {
            None => self.wait(self.backend.sync()).await,
            Some(Fault::Done) => {
                self.wait(self.backend.sync()).await?;
                doubt()
            }
            Some(_) => doubt(),
        }
    }

    async fn check(&self) -> StoreResult<()> {
        self.backend.check().await
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        self.backend.sweep(now_ms).await
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}

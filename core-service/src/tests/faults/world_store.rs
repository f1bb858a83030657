//! The store of a core: in maps, or embedded on a disk that can fail.

use std::sync::Arc;

use parking_lot::Mutex;
use thesis_net::clock::{SharedClock, SystemIdSource};

use crate::{
    store::{
        SharedBackend,
        embedded::{EmbeddedStore, Options, tests::disk::Disk},
        schema,
    },
    tests::faulty::{Fault, MemoryStore, StoreCall},
};

/// Repeatable random numbers.
#[derive(Debug)]
pub(in crate::tests) struct Dice(pub(in crate::tests) u64);

impl Dice {
    /// One of `0..below`.
    pub(in crate::tests) fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % below as u64).unwrap()
    }
}

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// In maps, with many writers.
    Shared,
    /// In maps, with one writer.
    Exclusive,
    /// The embedded store on a disk in memory.
    Embedded,
}

/// A store that outlives the processes on it.
#[derive(Clone)]
pub(super) enum WorldStore {
    Memory(Arc<MemoryStore>),
    Embedded(Disk, Arc<EmbeddedStore>),
}

fn open(disk: Disk, clock: &SharedClock) -> WorldStore {
    let store = EmbeddedStore::open_with_backends(disk.files(), Options::default(), clock.clone(), &SystemIdSource);
    WorldStore::Embedded(disk, Arc::new(store.expect("what a crash leaves can be opened")))
}

impl WorldStore {
    pub(super) fn new(store: StoreKind, clock: &SharedClock) -> Self {
        match store {
            StoreKind::Shared => Self::Memory(Arc::new(MemoryStore::new(false))),
            StoreKind::Exclusive => Self::Memory(Arc::new(MemoryStore::new(true))),
            StoreKind::Embedded => open(Disk::empty(), clock),
        }
    }

    pub(super) fn kind(&self) -> StoreKind {
        match self {
            Self::Memory(_) if self.backend().is_exclusive() => StoreKind::Exclusive,
            Self::Memory(_) => StoreKind::Shared,
            Self::Embedded(..) => StoreKind::Embedded,
        }
    }

    pub(super) fn backend(&self) -> SharedBackend {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Embedded(_, store) => store.clone(),
        }
    }

    /// A copy with the same rows.
    pub(super) fn copy(&self, clock: &SharedClock) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store.copy()),
            Self::Embedded(disk, _) => open(disk.copy(), clock),
        }
    }

    /// Replaces the store by the state after a process ended with this fault.
    pub(super) fn end(&mut self, fault: Fault, random_faults: Option<&RandomFaults>, clock: &SharedClock) {
        match self {
            Self::Memory(store) if fault == Fault::PowerLoss => store.lose_power(),
            Self::Memory(_) => {}
            Self::Embedded(disk, _) => {
                let left = match random_faults {
                    _ if fault != Fault::PowerLoss => disk.copy(),
                    Some(random_faults) => disk.after_power_loss_but(|| random_faults.0.lock().roll(2) == 0),
                    None => disk.after_power_loss(),
                };
                *self = open(left, clock);
            }
        }
    }

    /// Every row.
    pub(super) async fn rows(&self) -> Arc<MemoryStore> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Embedded(_, store) => {
                let rows = MemoryStore::new(true);
                for table in schema::ALL {
                    rows.fill(table, store.all(table).await.unwrap());
                }
                Arc::new(rows)
            }
        }
    }
}

/// Random faults.
#[derive(Clone)]
pub(super) struct RandomFaults(pub(super) Arc<Mutex<Dice>>);

impl RandomFaults {
    pub(super) fn choose(&self, called: StoreCall, exclusive: bool) -> Option<Fault> {
        let mut dice = self.0.lock();
        let faults = called.faults(exclusive);
        (dice.roll(40) == 0).then(|| faults[dice.roll(faults.len())])
    }
}

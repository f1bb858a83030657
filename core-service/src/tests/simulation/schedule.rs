//! What the seed of a run decides: its faults, their times and their order.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use turmoil::Sim;

use super::{
    cluster::{CORES, Cluster, EDGES, RECEIVERS, Treatment, WORKERS},
    history::Fact,
};
use crate::tests::faults::Dice;

/// The milliseconds in which faults begin.
const FIRST_MS: usize = 4_000;
const FAULTS_MS: usize = 20_000;
/// The milliseconds of a fault.
const MIN_MS: usize = 200;
const MAX_MS: usize = 7_000;
/// Maximum milliseconds for which a store hangs. A core's leases end after nine seconds without a heartbeat, and other
/// cores take them after eleven.
const MAX_HANG_MS: usize = 14_000;
/// The time at which every fault is over.
pub(super) const CALM_MS: usize = FIRST_MS + FAULTS_MS + MAX_HANG_MS;
/// Maximum milliseconds by which a clock is wrong: clocks of cores may differ by two seconds.
const MAX_AHEAD_MS: usize = 900;
/// Maximum latency of messages without a fault.
pub(super) const LATENCY: Duration = Duration::from_millis(20);

/// A kind of fault, and the nodes that it happens to.
#[derive(Clone, Copy, Debug)]
pub(super) enum FaultKind {
    /// A core is killed.
    CoreEnds(usize),
    /// A worker is killed.
    WorkerEnds(usize),
    /// An edge is killed.
    EdgeEnds(usize),
    /// No message passes between two cores, one of which may be silent only.
    CoresApart {
        from: usize,
        to: usize,
        one_way: bool,
    },
    /// No message passes between a core and a worker.
    WorkerApart {
        core: usize,
        worker: usize,
    },
    /// No message passes between a core and everybody else. It still reaches the store.
    CoreAlone(usize),
    /// The messages between two cores wait.
    MessagesWait {
        from: usize,
        to: usize,
    },
    /// Messages take up to this number of milliseconds.
    SlowMessages(usize),
    /// The store's nodes near a core hang: its calls wait.
    StoreHangs(usize),
    SlowStore {
        core: usize,
        ms: usize,
    },
    /// This number of a core's calls of the store fails, of a thousand.
    FailingStore {
        core: usize,
        of_1000: usize,
    },
    /// The clock of a core jumps, and back at the end.
    WrongClock {
        core: usize,
        ms: i64,
    },
    /// An endpoint treats attempts in another way.
    Endpoint {
        receiver: usize,
        treatment: Treatment,
    },
}

/// A fault and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedFault {
    begins_ms: usize,
    ends_ms: usize,
    kind: FaultKind,
}

fn kind(dice: &mut Dice) -> FaultKind {
    let core = dice.roll(CORES);
    let to = (core + 1 + dice.roll(CORES - 1)) % CORES;
    match dice.roll(17) {
        0..3 => FaultKind::CoreEnds(core),
        3 => FaultKind::WorkerEnds(dice.roll(WORKERS)),
        4 | 5 => FaultKind::CoresApart { from: core, to, one_way: dice.roll(2) == 0 },
        6 => FaultKind::WorkerApart { core, worker: dice.roll(WORKERS) },
        7 => FaultKind::CoreAlone(core),
        8 => FaultKind::MessagesWait { from: core, to },
        9 => FaultKind::SlowMessages(50 + dice.roll(600)),
        10 => FaultKind::StoreHangs(core),
        11 => FaultKind::SlowStore { core, ms: 20 + dice.roll(400) },
        12 | 13 => FaultKind::FailingStore { core, of_1000: 10 + dice.roll(100) },
        14 => FaultKind::EdgeEnds(dice.roll(EDGES)),
        15 => {
            let ahead = i64::try_from(dice.roll(2 * MAX_AHEAD_MS)).unwrap();
            FaultKind::WrongClock { core, ms: ahead - i64::try_from(MAX_AHEAD_MS).unwrap() }
        }
        _ => {
            let treatments = [
                Treatment::Fails,
                Treatment::Hangs,
                Treatment::AcceptsLate,
                Treatment::AcceptsTwice,
                Treatment::Closes,
            ];
            let treatment = treatments[dice.roll(treatments.len())];
            FaultKind::Endpoint { receiver: dice.roll(RECEIVERS), treatment }
        }
    }
}

/// The faults of a seed, by their number.
pub(super) fn faults_of(seed: u64) -> Vec<PlannedFault> {
    let mut dice = Dice(seed.reverse_bits());
    let count = 3 + dice.roll(10);
    let fault = |_| {
        let (begins_ms, kind) = (FIRST_MS + dice.roll(FAULTS_MS), kind(&mut dice));
        let max_ms = if matches!(kind, FaultKind::StoreHangs(_)) { MAX_HANG_MS } else { MAX_MS };
        PlannedFault { begins_ms, ends_ms: begins_ms + MIN_MS + dice.roll(max_ms - MIN_MS), kind }
    };
    (0..count).map(fault).collect()
}

/// A moment at which a fault begins or ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) at_ms: usize,
    begins: bool,
    kind: FaultKind,
}

/// The changes of some faults, in their order.
pub(super) fn changes(faults: &[PlannedFault]) -> Vec<Change> {
    let both = |fault: &PlannedFault| {
        let kind = fault.kind;
        [Change { at_ms: fault.begins_ms, begins: true, kind }, Change { at_ms: fault.ends_ms, begins: false, kind }]
    };
    let mut changes: Vec<Change> = faults.iter().flat_map(both).collect();
    changes.sort_by_key(|change| change.at_ms);
    changes
}

fn set_apart(sim: &Sim<'_>, from: &str, to: &str, apart: bool) {
    if apart { sim.partition(from, to) } else { sim.repair(from, to) }
}

impl Change {
    /// Lets a fault begin or end.
    pub(super) fn apply(&self, sim: &mut Sim<'_>, cluster: &Cluster) {
        let begins = self.begins;
        let moment = if begins { "begins" } else { "ends" };
        cluster.history.note("schedule", Fact::Fault(format!("{:?} {moment}", self.kind)));
        let (core, worker) = (|number: usize| &cluster.cores[number], |number: usize| &*cluster.workers[number].name);
        let set = |setting: &AtomicUsize, value| {
            setting.store(if begins { value } else { 0 }, Ordering::Relaxed);
        };
        match self.kind {
            FaultKind::CoreEnds(number) => set_running(sim, &core(number).name, !begins),
            FaultKind::WorkerEnds(number) => set_running(sim, worker(number), !begins),
            FaultKind::EdgeEnds(number) => set_running(sim, &cluster.edges[number].name, !begins),
            FaultKind::CoresApart { from, to, one_way } => {
                let (from, to) = (&*core(from).name, &*core(to).name);
                match (one_way, begins) {
                    (false, _) => set_apart(sim, from, to, begins),
                    (true, true) => sim.partition_oneway(from, to),
                    (true, false) => sim.repair_oneway(from, to),
                }
            }
            FaultKind::WorkerApart { core: number, worker: other } => {
                set_apart(sim, &core(number).name, worker(other), begins);
            }
            FaultKind::CoreAlone(number) => {
                let alone = &*core(number).name;
                for other in cluster.names().iter().filter(|other| **other != alone) {
                    set_apart(sim, alone, other, begins);
                }
            }
            FaultKind::MessagesWait { from, to } if begins => sim.hold(&*core(from).name, &*core(to).name),
            FaultKind::MessagesWait { from, to } => sim.release(&*core(from).name, &*core(to).name),
            FaultKind::SlowMessages(ms) => {
                let latency = if begins { Duration::from_millis(ms as u64) } else { LATENCY };
                sim.set_max_message_latency(latency);
            }
            FaultKind::StoreHangs(number) => core(number).store.hangs.store(begins, Ordering::Relaxed),
            FaultKind::SlowStore { core: number, ms } => set(&core(number).store.slow_ms, ms),
            FaultKind::FailingStore { core: number, of_1000 } => set(&core(number).store.failing, of_1000),
            FaultKind::WrongClock { core: number, ms } => {
                core(number).clock.ahead_ms.store(if begins { ms } else { 0 }, Ordering::Relaxed);
            }
            FaultKind::Endpoint { receiver, treatment } => {
                let treatment = if begins { treatment } else { Treatment::Accepts };
                *cluster.receivers[receiver].treatment.lock() = treatment;
            }
        }
    }
}

fn set_running(sim: &mut Sim<'_>, name: &str, runs: bool) {
    if runs { sim.bounce(name) } else { sim.crash(name) }
}

/// Ends what faults on the same nodes may have left when they overlapped.
pub(super) fn calm(sim: &mut Sim<'_>, cluster: &Cluster) {
    let names = cluster.names();
    for (number, name) in names.iter().enumerate() {
        for other in &names[number + 1..] {
            sim.release(*name, *other);
        }
    }
    for name in cluster.processes().map(|node| &*node.name) {
        if !sim.is_host_running(name) {
            sim.bounce(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_hundred_seeds_have_every_kind_of_fault() {
        let faults: Vec<_> = (0..100).flat_map(faults_of).collect();
        let name = |fault: &PlannedFault| {
            let kind = format!("{:?}", fault.kind);
            kind.split(['(', ' ']).next().unwrap().to_owned()
        };
        assert_eq!(faults.iter().map(name).collect::<BTreeSet<_>>().len(), 13);
        assert!(faults.iter().all(|fault| fault.begins_ms >= FIRST_MS && fault.ends_ms <= CALM_MS));
    }

    #[test]
    fn changes_are_in_order() {
        let changes = changes(&faults_of(7));
        assert!(changes.is_sorted_by_key(|change| change.at_ms));
        assert_eq!(changes.iter().filter(|change| change.begins).count() * 2, changes.len());
    }
}

//! What happened in a run, in the order in which it happened. The place of a fact in the history is its time: an order
//! of all facts that no clock of a node can disturb.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use super::checks::ShownCheckpoint;

/// A request of a client. It is repeated until a core responds.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// Creates a test thesis under an idempotency key.
    Create {
        key: String,
        token: String,
    },
    /// Lists the theses on a token.
    List {
        token: String,
    },
    /// Sends observations of an upstream.
    Observe,
    Revoke,
    ChangeAlert,
    DeleteAlert,
    /// Creates the webhooks, the alerts and the key of a run.
    SetUp,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Created {
        event: String,
    },
    /// The ids of the listed theses.
    Listed(BTreeSet<String>),
    /// The theses that observations created or confirmed, and those that they deleted.
    Observed {
        theses: Vec<String>,
        gone: Vec<String>,
    },
    Done,
    /// A refusal that a repetition does not change.
    Refused(String),
}

/// A fact of a run.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    Requested(Request),
    /// The outcome of the request at this place in the history.
    Responded(usize, Outcome),
    /// A stream has sent its first message.
    Opened,
    /// A stream has sent an event with this id.
    Event(String),
    /// A stream has skipped a number of events.
    Gap(Option<i64>),
    /// A stream has ended, or was not opened.
    Ended(String),
    /// A webhook's endpoint has received an attempt.
    Received(ReceivedAttempt),
    /// A core shows a new signed checkpoint.
    Signed(ShownCheckpoint),
    /// Two cores hand out attempts of a shard of webhooks at the same time.
    ServedTwice {
        shard: i64,
        cores: [String; 2],
    },
    /// A process runs.
    Started,
    /// A process could not start, or stopped with an error.
    Failed(String),
    /// A core has stopped in order. The numbers of its tasks and of the holders of its memory are 0.
    Stopped {
        tasks: usize,
        holders: usize,
    },
    /// A fault begins or ends.
    Fault(String),
}

/// An attempt as its endpoint has received it.
#[derive(Clone, Debug)]
pub(super) struct ReceivedAttempt {
    pub(super) event: String,
    pub(super) delivery: String,
    pub(super) number: i32,
    /// True if the endpoint responds with 200, perhaps late.
    pub(super) accepted: bool,
}

/// A fact, who noted it, and the simulated milliseconds since the start.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) at_ms: i64,
    pub(super) actor: String,
    pub(super) fact: Fact,
}

/// All facts of a run.
#[derive(Default)]
pub(super) struct History {
    records: Mutex<Vec<Record>>,
    now_ms: AtomicI64,
}

impl History {
    /// Appends a fact; returns its place.
    pub(super) fn note(&self, actor: &str, fact: Fact) -> usize {
        let mut records = self.records.lock();
        records.push(Record { at_ms: self.now_ms(), actor: actor.to_owned(), fact });
        records.len() - 1
    }

    /// The simulated milliseconds since the start.
    pub(super) fn now_ms(&self) -> i64 {
        if let Some(elapsed) = turmoil::sim_elapsed() {
            self.set_now(elapsed);
        }
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Sets the time of facts that no node notes.
    pub(super) fn set_now(&self, elapsed: Duration) {
        self.now_ms.store(i64::try_from(elapsed.as_millis()).unwrap(), Ordering::Relaxed);
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.records.lock().clone()
    }
}

/// The lines of a trace.
pub(super) fn trace(records: &[Record]) -> String {
    let line = |record: &Record| {
        let fact = match &record.fact {
            Fact::Fault(fault) => format!("fault: {fault}"),
            Fact::Ended(reason) => format!("stream ended: {reason}"),
            Fact::Failed(reason) => format!("did not start: {reason}"),
            fact => format!("{fact:?}"),
        };
        format!("{:>7} {} {fact}\n", record.at_ms, record.actor)
    };
    records.iter().map(line).collect()
}

//! An installation under load, event by event: what each step costs, and where it waits.

mod log;
mod out;
mod read;
mod store;

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    costs as cost,
    plan::{Load, Roles},
    queue::{Station, Time, exponential},
};
use crate::data::Random;

/// A second in nanoseconds.
const SECOND: Time = 1_000_000_000;
/// Part of the streams, and of the webhooks, that an event of a quiet and of a hot token concerns.
const CONCERNED: [f64; 2] = [0.000_55, 0.005_05];
/// How many theses come to one about the hot token.
const HOT_ONE_IN: usize = 10;
/// Most theses a second that bring two derived events each, in their own append; beyond, those of a token are made
/// together.
const DERIVED_MOST: f64 = 120.0;

/// An event, by when its thesis was posted; a derived one has no such time that counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    posted: Time,
    hot: bool,
    derived: bool,
}

/// What happens next.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A thesis is posted.
    Post,
    /// The log's owner knows which theses of a batch are new.
    Found(Vec<Event>),
    /// It has made the batch.
    Made(Vec<Event>),
    /// The batch is in the log.
    Appended(Vec<Event>),
    /// Its rows are there.
    Written(Vec<Event>),
    /// Their checkpoint is stored.
    Projected(Vec<Event>),
    /// An edge hears of an event.
    Frames { edge: usize, event: Event },
    /// Edges send signs of life.
    Signs,
    /// A delivery is due.
    Dispatch { posted: Time },
    /// A worker has it.
    Send { posted: Time },
    /// It was sent.
    Report,
    /// Somebody reads.
    Read,
    /// Core has a read.
    ReadAtCore { began: Time, list: bool },
    /// Core asks for its next rows.
    Rows { began: Time, list: bool, round: usize },
}

/// How busy the busiest of each kind is, as a part, and the p50 and p99 of each way in milliseconds.
pub(super) struct Used {
    /// The core that owns the log.
    pub(super) owner: f64,
    /// The others.
    pub(super) core: f64,
    /// The edges.
    pub(super) edge: f64,
    /// The workers.
    pub(super) worker: f64,
    /// The nodes of the store.
    pub(super) node: f64,
    /// The log, of the most events that one took.
    pub(super) log: f64,
    /// Posted to the last frame of an edge.
    pub(super) frame: [f64; 2],
    /// Posted to a webhook's arrival.
    pub(super) arrival: [f64; 2],
    /// A read, of all.
    pub(super) read: [f64; 2],
}

/// The installation, and what is to happen in it.
pub(super) struct World<'a> {
    load: &'a Load,
    random: Random,
    now: Time,
    /// Steps by their time, and by their number among those of one time.
    steps: BinaryHeap<Reverse<(Time, u64, Step)>>,
    number: u64,
    cores: Vec<Station>,
    edges: Vec<Station>,
    workers: Vec<Station>,
    nodes: Vec<Station>,
    /// Events that wait for the batch under way, if one is.
    waiting: Vec<Event>,
    appending: bool,
    events: u64,
    frames: Vec<Time>,
    arrivals: Vec<Time>,
    reads: Vec<Time>,
}

impl<'a> World<'a> {
    /// Simulates some seconds.
    pub(super) fn run(load: &'a Load, roles: Roles, seconds: f64) -> Used {
        let stations = |count: usize, processors| (0..count).map(|_| Station::new(processors)).collect();
        let mut world = Self {
            load,
            random: Random::new(7),
            now: 0,
            steps: BinaryHeap::new(),
            number: 0,
            cores: stations(roles.cores, cost::PROCESSORS),
            edges: stations(roles.edges, cost::PROCESSORS),
            workers: stations(roles.workers, cost::PROCESSORS),
            nodes: stations(roles.nodes, cost::NODE_PROCESSORS),
            waiting: Vec::new(),
            appending: false,
            events: 0,
            frames: Vec::new(),
            arrivals: Vec::new(),
            reads: Vec::new(),
        };
        for step in [Step::Post, Step::Read, Step::Signs] {
            world.at(0, step);
        }
        let end = (seconds * 1e9) as Time;
        while let Some(Reverse((now, _, step))) = world.steps.pop() {
            if now >= end {
                break;
            }
            world.now = now;
            world.step(step);
        }
        world.used(end)
    }

    /// Plans a step.
    fn at(&mut self, time: Time, step: Step) {
        self.number += 1;
        self.steps.push(Reverse((time, self.number, step)));
    }

    /// Does what a step does.
    fn step(&mut self, step: Step) {
        match step {
            Step::Post => self.post(),
            Step::Found(batch) => self.found(batch),
            Step::Made(batch) => self.made(batch),
            Step::Appended(batch) => self.appended(batch),
            Step::Written(batch) => self.written(batch),
            Step::Projected(batch) => self.projected(&batch),
            Step::Frames { edge, event } => self.frames(edge, event),
            Step::Signs => self.signs(),
            Step::Dispatch { posted } => self.dispatch(posted),
            Step::Send { posted } => self.send(posted),
            Step::Report => self.report(),
            Step::Read => self.ask_edge(),
            Step::ReadAtCore { began, list } => self.ask_core(began, list),
            Step::Rows { began, list, round } => self.ask_store(began, list, round),
        }
    }

    /// The time to the next arrival, at a mean rate a second.
    fn gap(&mut self, a_second: f64) -> Time {
        (exponential(&mut self.random, 1e6 / a_second) * 1e3) as Time
    }

    /// What was used and how long each way took, up to a time.
    fn used(&mut self, time: Time) -> Used {
        let most = |stations: &[Station]| stations.iter().map(|station| station.used(time)).fold(0.0, f64::max);
        Used {
            owner: self.cores[0].used(time),
            core: most(&self.cores[1..]),
            edge: most(&self.edges),
            worker: most(&self.workers),
            node: most(&self.nodes),
            log: self.events as f64 / (time as f64 / SECOND as f64) / cost::LOG_MOST,
            frame: percentiles(&mut self.frames),
            arrival: percentiles(&mut self.arrivals),
            read: percentiles(&mut self.reads),
        }
    }
}

/// One way between two machines.
fn hop() -> Time {
    (cost::HOP * 1e3) as Time
}

/// The p50 and p99 in milliseconds.
fn percentiles(times: &mut [Time]) -> [f64; 2] {
    times.sort_unstable();
    [0.5, 0.99].map(|part| {
        let index = (times.len() as f64 * part) as usize;
        times.get(index).map_or(0.0, |time| *time as f64 / 1e6)
    })
}

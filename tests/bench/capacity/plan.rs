//! The loads, and the least installation that carries each.

use super::{
    costs::EDGE_STREAMS,
    world::{Used, World},
};

/// Most of a resource's time that may be used.
const MAX_USED: f64 = 0.6;
/// Use of the other cores above which more cores take work from the log's owner.
const SHARED: f64 = 0.3;
/// Longest p99 of any way, in milliseconds.
const MAX_MS: f64 = 100.0;
/// Theses that a simulation sees at least.
const THESES: f64 = 500.0;
/// Shortest simulated time, in seconds.
const SECONDS: f64 = 5.0;

/// What an installation has to carry.
pub(super) struct Load {
    /// Theses a second in a peak.
    pub(super) theses: f64,
    /// Open streams.
    pub(super) streams: usize,
    /// Webhooks.
    pub(super) webhooks: usize,
    /// Reads a second.
    pub(super) reads: f64,
}

/// How many there are of each role.
#[derive(Clone, Copy)]
pub(super) struct Roles {
    /// Cores; the first one owns the log.
    pub(super) cores: usize,
    /// Edges.
    pub(super) edges: usize,
    /// Workers.
    pub(super) workers: usize,
    /// Nodes of the store.
    pub(super) nodes: usize,
}

/// An installation that carries a load.
pub(super) struct Plan {
    pub(super) roles: Roles,
    pub(super) used: Used,
}

const fn load(theses: f64, streams: usize, webhooks: usize, reads: f64) -> Load {
    Load { theses, streams, webhooks, reads }
}

/// The rows of the table: a million theses a month, a hundred million a year, a hundred million a month, each at its peak.
pub(super) const LOADS: [Load; 9] = [
    load(4.0, 10_000, 1_000, 100.0),
    load(4.0, 100_000, 10_000, 500.0),
    load(4.0, 1_000_000, 100_000, 2_000.0),
    load(32.0, 10_000, 1_000, 100.0),
    load(32.0, 100_000, 10_000, 500.0),
    load(32.0, 1_000_000, 100_000, 2_000.0),
    load(386.0, 10_000, 1_000, 100.0),
    load(386.0, 100_000, 10_000, 500.0),
    load(386.0, 1_000_000, 100_000, 2_000.0),
];

/// One less of a role, unless one of them could not fail then.
const FEWER: [fn(Roles) -> Option<Roles>; 3] = [
    |roles| (roles.cores > 2).then(|| Roles { cores: roles.cores - 1, ..roles }),
    |roles| (roles.workers > 2).then(|| Roles { workers: roles.workers - 1, ..roles }),
    |roles| (roles.nodes > 3).then(|| Roles { nodes: roles.nodes - 1, ..roles }),
];

/// The least numbers, beginning with those that may lose one of each.
pub(super) fn least(load: &Load) -> Plan {
    let edges = load.streams.div_ceil(EDGE_STREAMS).max(2);
    let mut roles = Roles { cores: 2, edges, workers: 2, nodes: 3 };
    let seconds = (THESES / load.theses).max(SECONDS);
    let mut used = loop {
        // A short look grows what is far too small; the whole time is for what looks right.
        let short = World::run(load, roles, SECONDS);
        if let Some(more) = grown(roles, &short, false) {
            roles = more;
            continue;
        }
        let whole = World::run(load, roles, seconds);
        match grown(roles, &whole, true) {
            Some(more) => roles = more,
            None => break whole,
        }
    };
    // A look at an overloaded installation may have asked for too many.
    for fewer in FEWER {
        while let Some(less) = fewer(roles) {
            let whole = World::run(load, less, seconds);
            if grown(less, &whole, true).is_some() {
                break;
            }
            (roles, used) = (less, whole);
        }
    }
    Plan { roles, used }
}

/// More of each role that is too busy, or of the busiest one if a way takes too long; nothing if all is well.
fn grown(roles: Roles, used: &Used, with_times: bool) -> Option<Roles> {
    // What the log's owner does alone is not less with more cores: they help while they do much themselves.
    let cores = if used.owner > MAX_USED && used.core > SHARED { used.owner } else { used.core };
    let parts = [cores, used.edge, used.worker, used.node];
    let busiest = parts.into_iter().fold(0.0, f64::max);
    let late = with_times && [used.frame[1], used.arrival[1], used.read[1]].into_iter().any(|time| time > MAX_MS);
    let more = |count: usize, part: f64| {
        let needed = (count as f64 * part / MAX_USED).ceil() as usize;
        if part > MAX_USED { needed.clamp(count + 1, count * 2) } else { count + usize::from(late && part >= busiest) }
    };
    let grown = Roles {
        cores: more(roles.cores, parts[0]),
        edges: more(roles.edges, parts[1]),
        workers: more(roles.workers, parts[2]),
        nodes: more(roles.nodes, parts[3]),
    };
    let same = grown.cores == roles.cores
        && grown.edges == roles.edges
        && grown.workers == roles.workers
        && grown.nodes == roles.nodes;
    // Hundreds of a role carry no more of this load: something else is its limit, which the table shows.
    if same || grown.cores.max(grown.workers).max(grown.nodes) > 400 { None } else { Some(grown) }
}

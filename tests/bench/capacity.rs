//! `cargo bench --bench service -- capacity`: how many processes of each role, and nodes of the store, carry a load.
//!
//! Simulates an installation with measured costs, in one thread and without a service. `docs/capacity.md` has its table.

mod costs;
mod plan;
mod queue;
mod world;

use self::plan::{LOADS, Plan};
use crate::{Failure, report::number};

/// The columns of the table.
const HEADS: [&str; 16] = [
    "theses/s",
    "streams",
    "webhooks",
    "reads/s",
    "cores",
    "edges",
    "workers",
    "nodes",
    "owner %",
    "edge %",
    "worker %",
    "node %",
    "log %",
    "frame p50/p99 ms",
    "arrival p50/p99 ms",
    "read p50/p99 ms",
];

/// Checks the queue, simulates every load, and prints the table.
pub(crate) fn run() -> Result<(), Failure> {
    queue::check()?;
    println!("\nThe least numbers of which no kind is busy for more than 60 % of its time, and no p99 above 100 ms\n");
    print(&HEADS.map(str::to_owned));
    print(&HEADS.map(|_| "---".to_owned()));
    for load in &LOADS {
        let Plan { roles, used } = plan::least(load);
        let [streams, webhooks] = [load.streams, load.webhooks].map(|count| number(count as f64));
        let percent = |part: f64| format!("{:.0}", part * 100.0);
        let times = |[p50, p99]: [f64; 2]| format!("{p50:.1}/{p99:.1}");
        print(&[
            format!("{}", load.theses),
            streams,
            webhooks,
            format!("{}", load.reads),
            roles.cores.to_string(),
            roles.edges.to_string(),
            roles.workers.to_string(),
            roles.nodes.to_string(),
            percent(used.owner),
            percent(used.edge),
            percent(used.worker),
            percent(used.node),
            percent(used.log),
            times(used.frame),
            times(used.arrival),
            times(used.read),
        ]);
    }
    Ok(())
}

/// Prints a row as Markdown.
fn print(cells: &[String; HEADS.len()]) {
    println!("| {} |", cells.join(" | "));
}

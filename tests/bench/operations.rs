//! Every operation on one service, or on two in turns: how figures grow with the theses, or differ between stores.

use std::{collections::HashMap, path::Path};

use crate::{
    Failure, Options,
    client::Protocol,
    data::Facts,
    process::Service,
    report::{aim_below, number, row},
    requests::{self, Operation},
    rounds::{Figures, Kind, compare},
};

/// Most that an operation may become slower with more theses, as a factor.
const GROWTH: f64 = 1.3;
/// Maximum ratio of the p99 of figures as of a time to the p99 of the present figures.
const MAX_AS_OF_SLOWDOWN: f64 = 2.0;
/// Least matches for which the time of each is printed; with fewer, the time is not theirs.
const MANY: u64 = 1_000;

/// A loaded service.
pub(crate) struct Side<'a> {
    pub(crate) service: &'a Service,
    pub(crate) facts: Facts,
    /// Folder for the files of requests.
    pub(crate) dir: &'a Path,
}

/// Measures and prints the operations. With two sides of one store, the second one has fewer theses.
pub(crate) async fn run(options: &Options, sides: &[Side<'_>], one_store: bool) -> Result<(), Failure> {
    let mut asked = Vec::new();
    for side in sides {
        asked.push(requests::of(side.service, &side.facts).await?);
    }
    let letters = ["A", "B"].iter().take(sides.len());
    let rounds = options.rounds;
    println!("\nWhat keys serve, {} connections, medians of {rounds} runs", options.connections);
    let mut head = vec![String::new()];
    for letter in letters.clone() {
        head.extend(["req/s", "p50 ms", "p99 ms"].map(|name| format!("{letter} {name}")));
    }
    if sides.len() == 2 {
        head.extend(["p50 A/B".to_owned(), if one_store { "aim".to_owned() } else { String::new() }]);
    }
    print(&head);
    let mut p99_ms = HashMap::new();
    for index in 0..asked[0][0].len() {
        let operations: Vec<&Operation> = asked.iter().map(|[keyed, _]| &keyed[index]).collect();
        let figures = measure(options, options.connections, sides, &operations).await?;
        let mut cells = vec![operations[0].name.to_owned()];
        for Figures { rate, p50_ms, p99_ms, .. } in &figures {
            cells.extend([number(*rate), format!("{p50_ms:.2}"), format!("{p99_ms:.2}")]);
        }
        p99_ms.insert(operations[0].name, figures[0].p99_ms);
        if let [a, b] = figures.as_slice() {
            let ratio = a.p50_ms / b.p50_ms;
            cells.push(format!("{ratio:.2}"));
            cells.push(if one_store { aim_below(ratio, GROWTH, "") } else { String::new() });
        }
        print(&cells);
    }

    println!("\nFigures as of a time beside the present ones, p99 on A");
    row(&["", "p99 ratio", "aim"]);
    for (past, present) in requests::AS_OF {
        let ratio = p99_ms[past] / p99_ms[present];
        row(&[past, &format!("{ratio:.2}"), &aim_below(ratio, MAX_AS_OF_SLOWDOWN, "")]);
    }

    println!("\nSearches, one connection, medians of {rounds} runs");
    row(&["", "matches", "requests/s", "p50 ms", "p99 ms", "CPU µs", "ms a 1,000"]);
    for index in 0..asked[0][1].len() {
        let operations: Vec<&Operation> = asked.iter().map(|[_, searches]| &searches[index]).collect();
        let figures = measure(options, 1, sides, &operations).await?;
        for ((letter, operation), figures) in letters.clone().zip(&operations).zip(&figures) {
            let Figures { rate, p50_ms, p99_ms, cpu_us } = figures;
            let matches = operation.matches.map(|matches| number(matches as f64)).unwrap_or_default();
            let many = operation.matches.filter(|matches| *matches >= MANY);
            let each = many.map_or_else(|| "-".to_owned(), |many| format!("{:.4}", p50_ms * 1e3 / many as f64));
            let name = format!("{letter} {}", operation.name);
            let [p50, p99] = [p50_ms, p99_ms].map(|time| format!("{time:.2}"));
            row(&[&name, &matches, &number(*rate), &p50, &p99, &number(*cpu_us), &each]);
        }
    }
    Ok(())
}

fn print(cells: &[String]) {
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    row(&cells);
}

/// Asks every side the same operation in turns.
async fn measure(
    options: &Options,
    connections: usize,
    sides: &[Side<'_>],
    operations: &[&Operation],
) -> Result<Vec<Figures>, Failure> {
    let mut files = Vec::new();
    for (side, operation) in sides.iter().zip(operations) {
        let file = side.dir.join("bench-requests");
        std::fs::write(&file, operation.requests.join("\n"))?;
        files.push(file);
    }
    let kinds: Vec<Kind<'_>> = sides
        .iter()
        .zip(&files)
        .map(|(side, requests)| Kind { service: side.service, protocol: Protocol::Http, requests })
        .collect();
    compare(options, connections, &kinds).await
}

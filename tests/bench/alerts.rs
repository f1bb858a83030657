//! `cargo bench --bench service -- alerts` measures what 10,000 alerts on one hot token cost a thesis: with thresholds
//! apart, with one threshold that all of them cross at once, and with thresholds that the count never reaches. This
//! part needs no service, since only the judging grows with the alerts. Then it measures how soon a crossing is in a
//! stream of a service.

mod crossings;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use core_service::domain::{
    alert::{Alert, AlertProgress, AlertWatch, EntryThesis, WatchedThesis},
    dataset::Dataset,
    row::Token,
};
use tokio::time::Instant;

use crate::{
    Failure, Options,
    report::{aim_below, number, percentile, row},
};

const ALERTS: u32 = 10_000;
const THESES: u32 = 20_000;
const START: i64 = 1_780_315_200_000;
const TOKEN: &str = "tk_hot";
/// Number of theses at which all alerts of one threshold cross it.
const CROSSED_AT: f64 = 10_000.0;
/// Our aim: the maximum time of a thesis, in milliseconds.
const MAX_MS: f64 = 2.0;

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    println!("{}", crate::report::machine());
    costs()?;
    crossings::run(options).await
}

/// Measures and prints the cost of many alerts.
fn costs() -> Result<(), Failure> {
    println!("\n{ALERTS} alerts on one token, {THESES} theses, milliseconds a thesis\n");
    row(&["thresholds", "p50", "p99", "most", "changes"]);
    for (name, threshold) in [
        ("each its own", f64::from as fn(u32) -> f64),
        ("one for all, crossed once", |_| CROSSED_AT),
        ("never reached", |_| 1e9),
    ] {
        let (mut times, changes) = measure(threshold)?;
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| percentile(&mut times, part));
        row(&[name, &number(p50), &number(p99), &number(most), &changes.to_string(), &aim_below(p99, MAX_MS, " ms")]);
    }
    Ok(())
}

/// The times of all theses, and the number of changes that they caused.
fn measure(threshold: fn(u32) -> f64) -> Result<(Vec<Duration>, usize), Failure> {
    let mut watch = AlertWatch::new(START, BTreeMap::new());
    for index in 0..ALERTS {
        let alert = Arc::new(Alert {
            id: format!("al_{index}"),
            project_id: format!("prj_{}", index / 500),
            live: true,
            token: Token { id: TOKEN.to_owned(), ..Token::default() },
            metric: 3,
            above: Some(threshold(index)),
            created_at: START,
            updated_at: START,
            ..Alert::default()
        });
        if !watch.has_token_of(&alert) {
            watch.add_token(&alert, []);
        }
        watch.set_alert(&alert, AlertProgress::default());
    }
    let (mut times, mut changes) = (Vec::with_capacity(THESES.try_into()?), 0);
    for index in 1..=THESES {
        let created_at = START + i64::from(index) * 50;
        let (id, author) = (format!("th_{index}"), format!("fp_{}", index % 1_000));
        let thesis = WatchedThesis { created_at, id, author };
        let added = EntryThesis { token: TOKEN, is_added: true, thesis: &thesis };
        let started = Instant::now();
        watch.read(&Dataset::Live, index.into(), created_at, Some(added));
        changes += watch.take_changes().len();
        times.push(started.elapsed());
    }
    Ok((times, changes))
}

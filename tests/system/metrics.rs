//! What `/metrics` tells after a tour of the service, and that the dashboard, the rules and the guide speak of the same.

mod scrape;
mod tour;

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use self::{
    scrape::{Scrape, demand_well_formed},
    tour::Tour,
};
use crate::harness::{SOON, Service, Store, fetch};

const DASHBOARD: &str = include_str!("../../deploy/grafana/trade-thesis.json");
const RULES: &str = include_str!("../../deploy/prometheus/alerts.yaml");
/// Told only where TLS is on; the test of renewals looks at it.
const WITH_TLS: &str = "tls_certificate_expiry_timestamp_seconds";
const GUIDE: &str = include_str!("../../docs/guides/observability.md");

on_stores_of_their_own![a_tour_is_told_whole_and_exactly];

async fn a_tour_is_told_whole_and_exactly(store: Store) {
    is_told_whole_and_exactly(&Service::on(&store, |setup| setup).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tour_through_the_roles_is_told_as_well() {
    let mut service = Service::embedded(|setup| setup.role("core"));
    let role = |role: &str| service.setup.clone().set("SVC_CORE_URL", &service.grpc).role(role).start();
    let others = [role("edge"), role("worker")];
    service.http = others[0].address("http");
    service.edges = vec![service.http.clone()];
    service.processes.extend(others);
    service.is_ready().await;
    is_told_whole_and_exactly(&service).await;
}

async fn is_told_whole_and_exactly(service: &Service) {
    let before = all(service).await;
    let tour = Tour::walk(service).await;
    // What is counted a moment later: ends of streams, reports, and the looks every two seconds.
    let mut misses = Vec::new();
    let counting = async {
        loop {
            let after = all(service).await;
            misses = tour.misses(&before, &after);
            if misses.is_empty() {
                break after;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let counted = timeout(SOON, counting).await;
    let after = counted.unwrap_or_else(|_| panic!("not counted: {misses:?}"));
    after.demand_no_names(&tour.names);
    named_metrics_are_there(&after);
    the_guides_table_is_that_of_the_scrape(&after);
}

/// The metrics of all processes together, each well formed.
async fn all(service: &Service) -> Scrape {
    let mut all = Scrape::default();
    for process in &service.processes {
        let text = fetch(format!("{}/metrics", process.address("ops"))).await.unwrap().text().await.unwrap();
        demand_well_formed(&text);
        all.add(&text);
    }
    all
}

/// Every metric that the dashboard or a rule asks for is in the scrape.
fn named_metrics_are_there(scrape: &Scrape) {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let shown: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let rules = RULES.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let asked: Vec<&str> = shown.iter().copied().chain(rules).collect();
    assert!(shown.len() > 50 && asked.len() > shown.len() + 20, "{}", asked.len());
    let named: BTreeSet<String> = asked.into_iter().flat_map(metric_names).collect();
    let missing: Vec<_> = named.iter().filter(|name| *name != WITH_TLS && !scrape.has_samples(name)).collect();
    assert!(missing.is_empty(), "nobody tells {missing:?}");
}

/// The names of metrics in an expression: words with an underscore outside texts, selectors and lists of labels.
fn metric_names(expression: &str) -> Vec<String> {
    let expression = expression.trim_matches('\'');
    let (mut rest, mut depth) = (String::new(), 0_usize);
    let mut is_text = false;
    for character in expression.chars() {
        match character {
            '"' => is_text = !is_text,
            '{' | '[' if !is_text => depth += 1,
            '}' | ']' if !is_text => depth -= 1,
            _ if !is_text && depth == 0 => rest.push(character),
            _ => {}
        }
    }
    let words = rest.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let functions = ["histogram_quantile", "max_over_time"];
    let is_name = |word: &&str| word.contains('_') && !functions.contains(word);
    words.filter(is_name).map(str::to_owned).collect()
}

/// The guide's table has a row for each metric, with its labels, and no other.
fn the_guides_table_is_that_of_the_scrape(scrape: &Scrape) {
    let rows = GUIDE.lines().skip_while(|line| !line.starts_with("| metric | labels |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let documented: BTreeSet<(String, BTreeSet<String>)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let labels = cells[2].split(", ").map(|label| label.trim_matches('`').to_owned());
            (cells[1].trim_matches('`').to_owned(), labels.filter(|label| !label.is_empty()).collect())
        })
        .collect();
    let told = scrape.families();
    let unknown: Vec<_> = told.difference(&documented).collect();
    let untold: Vec<_> = documented.difference(&told).filter(|(name, _)| name != WITH_TLS).collect();
    assert!(unknown.is_empty() && untold.is_empty(), "not in the guide: {unknown:?}; not told: {untold:?}");
}

//! The page of the documentation has the rules of the suite.

use std::{env, fs};

use stream_conformance::{client, server};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stream-conformance.md");
/// The heading with which the tables begin.
const TABLES: &str = "\n## Rules of servers\n";

fn server_table(rules: &[server::Rule]) -> String {
    let row = |rule: &server::Rule| {
        let transports: Vec<&str> = rule.transports.iter().map(|transport| transport.name()).collect();
        format!("| `{}` | {} | {} |\n", rule.name, transports.join(", "), rule.text)
    };
    let rows: String = rules.iter().map(row).collect();
    format!("\n| rule | over | meaning |\n|---|---|---|\n{rows}")
}

fn tables() -> String {
    let row = |rule: &client::Rule| format!("| `{}` | {} |\n", rule.name, rule.text);
    let of_clients: String = client::RULES.iter().map(row).collect();
    let (of_servers, longer) = (server_table(server::RULES), server_table(server::LONG_RULES));
    let longer = format!("\n## Rules of servers that take longer\n{longer}");
    let of_clients = format!("\n## Rules of clients\n\n| rule | meaning |\n|---|---|\n{of_clients}");
    [TABLES, &of_servers, &longer, &of_clients].concat()
}

#[test]
fn the_page_has_these_rules() {
    let committed = fs::read_to_string(PAGE).unwrap();
    let head = committed.split(TABLES).next().unwrap();
    let page = format!("{}\n{}", head.trim_end(), tables());
    if env::var_os("UPDATE_GUIDES").is_some() {
        fs::write(PAGE, page).unwrap();
    } else {
        let differs = committed.lines().zip(page.lines()).find(|(old, new)| old != new);
        assert!(committed == page, "{differs:?}; UPDATE_GUIDES=1 cargo test -p stream-conformance writes it");
    }
}

#[test]
fn names_are_unique() {
    let of_servers = server::RULES.iter().chain(server::LONG_RULES).map(|rule| rule.name);
    for mut names in [of_servers.collect::<Vec<_>>(), client::RULES.iter().map(|rule| rule.name).collect()] {
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}

//! Commands that read: lists, single resources, search.

use clap::Args;
use serde_json::Value;

use super::{
    client::{ApiClient, Query},
    output::{Amount, Column, Columns, Form, Output, cells_of, print_table, row_count},
};
use crate::{Failure, config::read_time, stream::Wanted, terminal::say};

const THESES: Columns = &[
    Column::whole("created", "/created_at"),
    Column::whole("id", "/id"),
    Column::text("author", "/profile/handle"),
    Column::text("token", "/token/symbol"),
    Column::whole("likes", "/likes"),
    Column::text("text", "/text"),
];
const EVENTS: Columns = &[
    Column::whole("created", "/created_at"),
    Column::whole("id", "/id"),
    Column::text("type", "/type"),
    Column::text("author", "/data/profile/handle"),
    Column::text("token", "/data/token/symbol"),
    Column::text("text", "/data/text"),
];
const PROFILES: Columns = &[
    Column::text("handle", "/handle"),
    Column::whole("id", "/id"),
    Column::text("name", "/display_name"),
    Column::text("bio", "/bio"),
];
const TOKENS: Columns = &[
    Column::text("symbol", "/symbol"),
    Column::whole("id", "/id"),
    Column::text("chain", "/chain"),
    Column::whole("theses", "/thesis_count"),
    Column::whole("24h", "/recent_thesis_count"),
    Column::text("name", "/name"),
];

/// A time window.
#[derive(Debug, Args)]
pub(super) struct Window {
    /// From this time on: ISO 8601, or a span before now such as 24h
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    after: Option<String>,
    /// Up to this time: ISO 8601, or a span before now such as 24h
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    before: Option<String>,
}

impl Window {
    fn query(self) -> Query {
        given([("created_after", self.after), ("created_before", self.before)])
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  trade-thesis api list --token RUN --after 24h")]
pub(super) struct List {
    /// Only theses of this author: @handle, fp_ id or user id of the platform
    #[arg(long, value_name = "AUTHOR")]
    author: Option<String>,
    /// Only theses on this token: SYMBOL, address, chain:address or tk_ id
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Only theses on tokens of this chain
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    #[command(flatten)]
    window: Window,
    /// Order: created_at_desc, created_at_asc or likes_desc [default: created_at_desc]
    #[arg(long, value_name = "ORDER")]
    sort: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  trade-thesis api get @sbx_runner\n  trade-thesis api get RUN --activity")]
pub(super) struct Get {
    /// An id, an @handle, or a token: SYMBOL, address or chain:address
    #[arg(value_name = "REFERENCE")]
    reference: String,
    /// Receipt of the thesis, in place of the thesis
    #[arg(long, conflicts_with_all = ["activity", "velocity"])]
    receipt: bool,
    /// Activity of the token in the last 24 hours, in place of the token
    #[arg(long, conflicts_with = "velocity")]
    activity: bool,
    /// Velocity, which is how fast theses on the token arrive, in place of the token
    #[arg(long)]
    velocity: bool,
    /// Chain of the token, if its symbol is on several chains
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// Figures of the token as of this time: ISO 8601, or a span before now such as 24h
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    as_of: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  trade-thesis api search long OR short --types theses\n  \
    trade-thesis api search '\"to the moon\" -short'")]
pub(super) struct Search {
    /// Words to find, in the search syntax; put the whole search in quotes of the shell if it has a phrase or -WORD
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Only these kinds: theses, profiles, tokens [default: all]
    #[arg(long, value_name = "KIND,…")]
    types: Option<String>,
    /// Only on this chain
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// Only on this token
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Only by the author with this handle
    #[arg(long, value_name = "HANDLE")]
    handle: Option<String>,
    #[command(flatten)]
    window: Window,
    /// Results of each kind, up to 50
    #[arg(long, value_name = "RESULTS", default_value_t = 10, value_parser = row_count)]
    limit: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  trade-thesis api events --events thesis.created --limit 5")]
pub(super) struct Events {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    amount: Amount,
}

/// The parameters that have a value.
pub(super) fn given<const N: usize>(values: [(&'static str, Option<String>); N]) -> Query {
    values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

pub(super) async fn list(list: List, client: &ApiClient, output: &Output) -> Result<(), Failure> {
    let List { author, token, chain, window, sort, amount } = list;
    let mut query = given([("profile", author), ("token", token), ("chain", chain), ("sort", sort)]);
    query.extend(window.query());
    output.list(client, &["theses"], &query, &amount, THESES).await
}

pub(super) async fn events(events: Events, client: &ApiClient, output: &Output) -> Result<(), Failure> {
    let mut query = events.wanted.query();
    query.extend(events.window.query());
    output.list(client, &["events"], &query, &events.amount, EVENTS).await
}

pub(super) async fn get(get: &Get, client: &ApiClient, output: &Output) -> Result<(), Failure> {
    let reference = get.reference.as_str();
    let kind = kind_of(reference);
    let part = match (get.receipt, get.activity, get.velocity) {
        (true, ..) => Some("receipt"),
        (_, true, _) => Some("activity"),
        (.., true) => Some("thesis-velocity"),
        _ => None,
    };
    let fits = match part {
        Some("receipt") => kind == "theses",
        Some(_) => kind == "tokens",
        None => true,
    };
    if !fits {
        return Err(format!(
            "{reference} has no such part: --receipt needs the id of a thesis, --activity and --velocity a token"
        )
        .into());
    }
    let path: Vec<&str> = [kind, reference].into_iter().chain(part).collect();
    let query = given([("chain", get.chain.clone()), ("as_of", get.as_of.clone())]);
    Ok(output.one(&client.get(&path, &query).await?)?)
}

/// The path of the kind of resource that a reference names. A word without a known prefix is a token's symbol or
/// address.
fn kind_of(reference: &str) -> &'static str {
    const KINDS: [(&str, &str); 6] = [
        ("th_", "theses"),
        ("fp_", "profiles"),
        ("@", "profiles"),
        ("evt_", "events"),
        ("wh_", "webhooks"),
        ("al_", "alerts"),
    ];
    KINDS.iter().find(|(prefix, _)| reference.starts_with(*prefix)).map_or("tokens", |(_, kind)| *kind)
}

pub(super) async fn search(search: Search, client: &ApiClient, output: &Output) -> Result<(), Failure> {
    let Search { words, types, chain, token, handle, window, limit } = search;
    let mut query = given([
        ("q", Some(words.join(" "))),
        ("types", types),
        ("chain", chain),
        ("token", token),
        ("handle", handle),
        ("limit", Some(limit.to_string())),
    ]);
    query.extend(window.query());
    let body = client.get(&["search"], &query).await?;
    if output.form == Form::Json {
        return Ok(output.one(&body)?);
    }
    let found: Value = serde_json::from_str(&body)?;
    let mut is_empty = true;
    for (name, columns) in [("theses", THESES), ("profiles", PROFILES), ("tokens", TOKENS)] {
        let rows = found[name].as_array().into_iter().flatten();
        let cells: Vec<_> = rows.map(|row| cells_of(row, columns)).collect();
        if !cells.is_empty() {
            is_empty = false;
            say(name)?;
            print_table(columns, cells)?;
        }
    }
    if is_empty {
        // As for a list.
        say("none")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_reference_decides_its_kind() {
        for (reference, kind) in [
            ("th_1", "theses"),
            ("@writer", "profiles"),
            ("fp_1", "profiles"),
            ("$RUN", "tokens"),
            ("RUN", "tokens"),
            ("sandbox:sbx1", "tokens"),
            ("tk_1", "tokens"),
            ("evt_1", "events"),
            ("wh_1", "webhooks"),
            ("al_1", "alerts"),
        ] {
            assert_eq!(kind_of(reference), kind, "{reference}");
        }
    }
}

//! The plans' file.

use std::{collections::BTreeMap, fs, path::Path};

use core_service::domain::plan::{Plan, Plans};
use serde::Deserialize;

use super::Refused;

const SETTING: &str = "SVC_PLANS_FILE";
const BUILT_IN: &str = include_str!("../plans.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    plans: BTreeMap<String, Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    history_days: u32,
    concurrent_streams: u32,
    webhook_endpoints: u32,
    requests_per_month: u64,
    standard_per_minute: u32,
    heavy_per_minute: u32,
    verify_per_minute: u32,
}

impl From<Row> for Plan {
    fn from(row: Row) -> Self {
        Self {
            history_days: row.history_days,
            concurrent_streams: row.concurrent_streams,
            webhook_endpoints: row.webhook_endpoints,
            requests_per_month: row.requests_per_month,
            standard_per_minute: row.standard_per_minute,
            heavy_per_minute: row.heavy_per_minute,
            verify_per_minute: row.verify_per_minute,
        }
    }
}

/// The plans that ship with the program.
pub(super) fn built_in() -> Result<Plans, Refused> {
    parse(BUILT_IN).map_err(|reason| Refused::new(SETTING, format!("the built-in plans: {reason}")))
}

/// The plans of an operator's file.
pub(super) fn read(path: &Path) -> Result<Plans, Refused> {
    let refused = |reason: String| Refused::new(SETTING, format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| {
        refused(error.to_string())
            .remedy("name a file that the service's user can read, or unset it for the built-in plans")
    })?;
    parse(&text).map_err(|reason| {
        refused(reason).remedy(
            "correct the file: a table [plans.NAME] with every field for each plan; or unset it for the built-in plans",
        )
    })
}

fn parse(text: &str) -> Result<Plans, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
        line.map_or_else(|| error.message().to_owned(), |line| format!("line {line}: {}", error.message()))
    })?;
    if file.plans.is_empty() {
        return Err("it holds no plan".to_owned());
    }
    Ok(file.plans.into_iter().map(|(name, row)| (name, row.into())).collect())
}

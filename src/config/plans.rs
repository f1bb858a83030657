//! The plans' file.

use std::{collections::BTreeMap, fs, num::NonZeroU32, path::Path};

use core_service::domain::plan::{Plan, Plans};
use serde::Deserialize;

use super::Refused;

const SETTING: &str = "SVC_PLANS_FILE";
const BUILT_IN: &str = include_str!("../plans.toml");
/// Test theses of a project where a plan does not name their number.
const DEFAULT_TEST_THESES: u32 = 1_000_000;

/// Alerts of a project and environment where a plan does not name their number.
const DEFAULT_ALERTS: u32 = 500;

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
    alerts: Option<u32>,
    #[serde(default)]
    verify_endpoints_days: u32,
    test_theses: Option<NonZeroU32>,
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
            alerts: row.alerts.unwrap_or(DEFAULT_ALERTS),
            verify_endpoints_days: row.verify_endpoints_days,
            test_theses: row.test_theses.map_or(DEFAULT_TEST_THESES, NonZeroU32::get),
            requests_per_month: row.requests_per_month,
            standard_per_minute: row.standard_per_minute,
            heavy_per_minute: row.heavy_per_minute,
            verify_per_minute: row.verify_per_minute,
        }
    }
}

pub(super) fn built_in() -> Result<Plans, Refused> {
    parse(BUILT_IN).map_err(|reason| Refused::new(SETTING, format!("the built-in plans: {reason}")))
}

pub(super) fn read(path: &Path) -> Result<Plans, Refused> {
    let refused = |reason: String| Refused::new(SETTING, format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| {
        refused(error.to_string())
            .remedy("name a file that the service's user can read, or unset it for the built-in plans")
    })?;
    parse(&text).map_err(|reason| {
        refused(reason).remedy(
            "correct the file: a table [plans.NAME] for each plan, with every field (alerts, test_theses and \
             verify_endpoints_days may be left out); or unset it for the built-in plans",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, String> {
        let limits = "history_days = 7\nconcurrent_streams = 2\nwebhook_endpoints = 3\nrequests_per_month = 9";
        let rates = "standard_per_minute = 3\nheavy_per_minute = 2\nverify_per_minute = 1";
        parse(&format!("[plans.own]\n{limits}\n{rates}\n{line}\n")).map(|plans| plans["own"])
    }

    fn test_theses(line: &str) -> Result<u32, String> {
        plan(line).map(|plan| plan.test_theses)
    }

    #[test]
    fn a_plan_may_say_how_long_it_verifies_endpoints() {
        assert_eq!(plan("verify_endpoints_days = 5").map(|plan| plan.verify_endpoints_days), Ok(5));
        assert_eq!(plan("").map(|plan| plan.verify_endpoints_days), Ok(0));
        assert!(plan("verify_endpoints_days = -1").unwrap_err().starts_with("line "));
        assert!(built_in().unwrap().values().all(|plan| plan.verify_endpoints_days == 0));
    }

    #[test]
    fn a_plan_may_say_how_many_test_theses_it_keeps() {
        assert_eq!(test_theses("test_theses = 5"), Ok(5));
        assert_eq!(test_theses(""), Ok(1_000_000));
        for wrong in ["0", "-1", "\"5\""] {
            let reason = test_theses(&format!("test_theses = {wrong}")).unwrap_err();
            assert!(reason.starts_with("line ") && reason.contains("invalid"), "{reason}");
        }
        let alerts = built_in().unwrap().into_iter().map(|(name, plan)| (name, plan.alerts));
        let expected = [("business", 500), ("free", 5), ("pro", 50)];
        assert_eq!(alerts.collect::<Vec<_>>(), expected.map(|(name, number)| (name.to_owned(), number)));
        let kept = built_in().unwrap().into_iter().map(|(name, plan)| (name, plan.test_theses));
        let expected = [("business", 1_000_000), ("free", 10_000), ("pro", 100_000)];
        assert_eq!(kept.collect::<Vec<_>>(), expected.map(|(name, number)| (name.to_owned(), number)));
    }
}

//! `trade-thesis doctor`: checks a set-up with the settings of a start, and changes nothing.
//!
//! It judges settings by the functions that a start calls. Opening the embedded store keeps all writes in memory, and a
//! cluster is only read. A port is bound without listening, so no client is taken. Each check of another machine has a
//! timeout.

mod certificate;
mod clock;
mod cluster;
mod core;
mod dns;
mod files;
mod finding;
mod folder;
mod ports;
mod public;
mod settings;
mod store;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use thesis_proto::json::List;

use self::finding::{Finding, Status};
use crate::{
    config::{Settings, StoreKind},
    role::Role,
};

/// Timeout for a check of a file or a cluster.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for each other check over the network.
const CHECK_TIMEOUT: Duration = Duration::from_secs(8);
/// The remedy for a check without a result.
const SLOW: &str = "see what is slow there: the disk, the network or the machine";

/// Check a set-up before a start, with the same settings; nothing is changed
#[derive(Debug, Args)]
#[command(after_help = "Every setting of a start counts here too; `trade-thesis --help` lists them. \
    Ends with 0 when there is no problem, warnings allowed, else with 1.")]
pub(crate) struct Doctor {
    /// What is to be started
    #[arg(long, value_enum, default_value_t = Role::All)]
    role: Role,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
    /// The settings that the command line's parser refused.
    #[arg(skip)]
    pub(crate) refused: Vec<String>,
    /// The variables of the settings that are given.
    #[arg(skip)]
    pub(crate) given: Vec<String>,
    /// The variables that look like settings and are none, each after the setting that may be meant.
    #[arg(skip)]
    pub(crate) unknown: Vec<(Option<String>, String)>,
}

/// The findings so far. A person reads each one as it comes, a program all of them at the end.
struct Report {
    json: bool,
    findings: Vec<Finding>,
    /// True while stdout can be written.
    is_printed: bool,
}

impl Report {
    fn add(&mut self, findings: Vec<Finding>) {
        if !self.json {
            let text: String = findings.iter().map(Finding::text).collect();
            self.is_printed &= io::stdout().write_all(text.as_bytes()).is_ok();
        }
        self.findings.extend(findings);
    }

    fn end(self) -> ExitCode {
        let is_healthy = self.findings.iter().all(|finding| finding.status != Status::Problem);
        let mut is_printed = self.is_printed;
        if self.json {
            let list = List::new(self.findings, None, false);
            let text = serde_json::to_string(&list).expect("texts can be written");
            is_printed &= writeln!(io::stdout(), "{text}").is_ok();
        }
        if is_healthy && is_printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

pub(crate) async fn run(doctor: Doctor, settings: &Settings) -> ExitCode {
    let role = doctor.role;
    let mut report = Report { json: doctor.json, findings: Vec::new(), is_printed: true };
    report.add(settings::check(&doctor, settings));
    if role != Role::Worker {
        report.add(certificate::check(role, settings));
    }
    report.add(vec![clock::sane()]);
    if role.is(Role::Core) {
        match settings.store.kind {
            StoreKind::Embedded => {
                let dir = &settings.store.data_dir;
                let folder = within("folder", CHECK_TIMEOUT, folder::check(dir)).await;
                let is_usable = folder.iter().all(|finding| finding.status != Status::Problem);
                report.add(folder);
                if is_usable || dir.is_dir() {
                    report.add(within_or_late("store", STORE_TIMEOUT, store::check(settings)).await);
                }
            }
            StoreKind::Scylla => {
                // The search index lives in the folder.
                report.add(within("folder", CHECK_TIMEOUT, folder::check(&settings.store.data_dir)).await);
                report.add(within_or_late("cluster", STORE_TIMEOUT, cluster::check(settings)).await);
            }
        }
    } else {
        report.add(within("core", CHECK_TIMEOUT, core::check(settings)).await);
    }
    report.add(folder::secrets(&settings.store.data_dir));
    report.add(within("ports", CHECK_TIMEOUT, ports::check(role, settings, &doctor.refused)).await);
    report.add(vec![files::check()]);
    if role != Role::Edge {
        report.add(within("dns", CHECK_TIMEOUT, dns::check(settings)).await);
    }
    if role.is(Role::Edge) {
        report.add(public::check(role, settings));
    }
    report.end()
}

/// A check that is given up after some time.
async fn within(name: &'static str, limit: Duration, looking: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    tokio::time::timeout(limit, looking).await.unwrap_or_else(|_| {
        let seen = format!("no result within {} s", limit.as_secs());
        vec![Finding::problem(name, seen, format!("{SLOW}; then try again"))]
    })
}

/// Runs a check that a start makes too, with a longer timeout there.
async fn within_or_late(
    name: &'static str,
    limit: Duration,
    looking: impl Future<Output = Vec<Finding>>,
) -> Vec<Finding> {
    tokio::time::timeout(limit, looking).await.unwrap_or_else(|_| {
        let seen = format!("no result within {} s: a start may take long", limit.as_secs());
        vec![Finding::warning(name, seen, SLOW)]
    })
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn only_the_store_may_be_slow() {
        let said = within_or_late("store", Duration::ZERO, pending()).await;
        assert!(said[0].status == Status::Warning && said[0].text().contains("a start may take long"), "{said:?}");
        assert_eq!(within("dns", Duration::ZERO, pending()).await[0].status, Status::Problem);
    }
}

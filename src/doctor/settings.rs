//! Every setting, by the functions that a start uses. The report lists all errors, not the first alone.

use std::sync::Arc;

use thesis_net::clock::{SharedClock, SystemClock};

use super::{Doctor, finding::Finding};
use crate::{
    config::{Refused, Settings, StoreKind},
    role::Role,
    secrets::{self, Secrets},
    telemetry,
};

const NAME: &str = "settings";

/// Checks the settings of a role, and the environment's other variables.
pub(super) fn check(doctor: &Doctor, settings: &Settings) -> Vec<Finding> {
    let role = doctor.role;
    let todo = "correct it; `trade-thesis --help` tells its form";
    let mut findings: Vec<_> = doctor.refused.iter().map(|seen| Finding::problem(NAME, seen, todo)).collect();
    let mut errors = Errors::default();
    everywhere(role, settings, &mut errors);
    if role.is(Role::Core) {
        core(settings, &mut errors);
    }
    if role.is(Role::Worker) {
        errors.of(settings.webhooks.resolver());
    }
    if !role.is(Role::Core) {
        errors.of(settings.core_channel(Arc::new(SystemClock)));
        errors.of(secrets::service_token(&settings.keys, &settings.store.data_dir));
    }
    findings.extend(errors.0.into_iter().map(|refused| Finding::refused(NAME, refused)));
    if settings.upstream.demo_live {
        let seen = "--demo-live is not looked at: a demonstration has its own data and upstream";
        findings.push(Finding::warning(NAME, seen, "leave it out"));
    }
    findings.extend(unused(doctor, settings));
    findings.extend(unknown(doctor));
    if role.is(Role::Core) && settings.keys.replace_secret_key {
        let seen =
            "SVC_REPLACE_SECRET_KEY is true: a start takes any secret key, and what was made with another is lost";
        findings.push(Finding::warning(NAME, seen, "unset it after the one start that needs it"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(NAME, format!("all that `{}` needs can be used", role.name())));
    }
    findings
}

/// Settings of the cluster beside the embedded store.
fn unused(doctor: &Doctor, settings: &Settings) -> Option<Finding> {
    let is_read = !doctor.refused.iter().any(|error| error.starts_with("SVC_STORE:"));
    let is_embedded = is_read && settings.store.kind == StoreKind::Embedded;
    if !is_embedded || !doctor.role.is(Role::Core) {
        return None;
    }
    let cluster = doctor.given.iter().filter(|name| name.starts_with("SVC_SCYLLA_"));
    let cluster = cluster.map(String::as_str).collect::<Vec<_>>().join(", ");
    let dir = settings.store.data_dir.display();
    (!cluster.is_empty()).then(|| {
        let seen = format!("{cluster}: not used: SVC_STORE is embedded, and a start keeps its data in {dir}");
        Finding::warning(NAME, seen, "set SVC_STORE=scylla for the cluster, or unset them")
    })
}

/// Variables that look like settings and are none.
fn unknown(doctor: &Doctor) -> impl Iterator<Item = Finding> {
    doctor.unknown.iter().map(|(near, name)| {
        let todo = near.as_ref().map_or_else(
            || "unset it; `trade-thesis --help` lists the settings".to_owned(),
            |near| format!("set {near} in its place, or unset it"),
        );
        Finding::warning(NAME, format!("{name}: is set, but is no setting, and is not used"), todo)
    })
}

/// The errors so far, each once.
#[derive(Default)]
struct Errors(Vec<Refused>);

impl Errors {
    fn of<T>(&mut self, judged: Result<T, Refused>) -> Option<T> {
        match judged {
            Ok(value) => Some(value),
            Err(error) => {
                // Core and worker have some settings in common.
                if self.0.iter().all(|known| known.to_string() != error.to_string()) {
                    self.0.push(error);
                }
                None
            }
        }
    }
}

fn everywhere(role: Role, settings: &Settings, errors: &mut Errors) {
    if role != Role::Worker {
        let clock: SharedClock = Arc::new(SystemClock);
        errors.of(settings.tls.identity(&clock));
    }
    errors.of(settings.tls.authorities());
    errors.of(settings.features.features());
    errors.of(telemetry::filter(settings.features.log.as_deref()));
    errors.of(settings.webhooks.worker(role));
}

fn core(settings: &Settings, errors: &mut Errors) {
    errors.of(settings.addresses.judge_internal());
    errors.of(settings.addresses.judge_advertised(settings.tls.scheme()));
    errors.of(settings.accounts.settings(settings.store.kind == StoreKind::Embedded));
    errors.of(settings.upstream.settings());
    errors.of(settings.store.archive_url());
    errors.of(settings.webhooks.resolver());
    let keys = &settings.keys;
    if let Some(plans) = errors.of(keys.plans()) {
        errors.of(keys.plan(&plans));
    }
    errors.of(keys.test_key());
    errors.of(keys.live_key());
    errors.of(keys.witnesses());
    match settings.store.kind {
        StoreKind::Scylla => {
            errors.of(settings.store.scylla());
            errors.of(Secrets::secret_key_given(keys));
            errors.of(Secrets::service_token_given(keys));
            errors.of(keys.cluster_log_key());
        }
        StoreKind::Embedded if settings.store.data_dir.is_dir() => {
            let dir = &settings.store.data_dir;
            errors.of(secrets::found_secret_key(keys, dir));
            errors.of(secrets::found_service_token(keys, dir));
            errors.of(secrets::found_log_key(keys, dir));
            errors.of(secrets::found_first_key(dir));
        }
        // The check of the store reports the folder.
        StoreKind::Embedded => {
            errors.of(keys.secret_key());
            errors.of(keys.service_token());
            errors.of(keys.log_key());
        }
    }
}

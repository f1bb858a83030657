//! Every setting, by the functions that a start uses. All errors are told, not the first alone.

use std::sync::Arc;

use thesis_net::clock::{SharedClock, SystemClock};

use super::finding::Finding;
use crate::{
    config::{Refused, Settings, StoreKind},
    role::Role,
    secrets::{self, Secrets},
    telemetry,
};

const NAME: &str = "settings";

/// Judges the settings of a role. `refused` has those that the command line's parser could not read.
pub(super) fn look(role: Role, settings: &Settings, refused: Vec<String>) -> Vec<Finding> {
    let todo = "correct it; `trade-thesis --help` tells its form";
    let mut findings: Vec<_> = refused.into_iter().map(|seen| Finding::problem(NAME, seen, todo)).collect();
    let mut errors = Errors::default();
    everywhere(role, settings, &mut errors);
    if role.is(Role::Core) {
        core(settings, &mut errors);
    }
    if role.is(Role::Worker) {
        worker(settings, &mut errors);
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
    if findings.is_empty() {
        findings.push(Finding::ok(NAME, format!("all that `{}` needs can be used", role.name())));
    }
    findings
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
    errors.of(settings.webhooks.root_certificate());
}

fn core(settings: &Settings, errors: &mut Errors) {
    errors.of(settings.addresses.judge_advertised(settings.tls.scheme()));
    errors.of(settings.accounts.settings(settings.store.kind == StoreKind::Embedded));
    errors.of(settings.upstream.settings());
    errors.of(settings.webhooks.resolver());
    let keys = &settings.keys;
    if let Some(plans) = errors.of(keys.plans()) {
        errors.of(keys.plan(&plans));
    }
    errors.of(keys.test_key());
    errors.of(keys.live_key());
    match settings.store.kind {
        StoreKind::Scylla => {
            errors.of(settings.store.scylla());
            errors.of(Secrets::secret_key_given(keys));
            errors.of(Secrets::service_token_given(keys));
        }
        StoreKind::Embedded if settings.store.data_dir.is_dir() => {
            let dir = &settings.store.data_dir;
            errors.of(secrets::found_secret_key(keys, dir));
            errors.of(secrets::found_service_token(keys, dir));
            errors.of(secrets::found_first_key(dir));
        }
        // The check of the store tells of the folder.
        StoreKind::Embedded => {
            errors.of(keys.secret_key());
            errors.of(keys.service_token());
        }
    }
}

fn worker(settings: &Settings, errors: &mut Errors) {
    let webhooks = &settings.webhooks;
    errors.of(webhooks.resolver());
    if let Ok(Some(certificate)) = webhooks.root_certificate() {
        errors.of(webhooks.judge_root(Some(&certificate)));
    }
}

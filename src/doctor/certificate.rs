//! The certificate of the listeners: whether others take it.

use std::sync::Arc;

use thesis_net::{
    clock::{SharedClock, SystemClock},
    tls::Unusable,
};

use super::finding::Finding;
use crate::{config::Settings, role::Role};

/// Tells why others refuse the certificate, or will refuse it soon.
pub(super) fn check(role: Role, settings: &Settings) -> Vec<Finding> {
    let clock: SharedClock = Arc::new(SystemClock);
    // The check of the settings reports an unusable one.
    let Ok(Some(identity)) = settings.tls.identity(&clock) else { return Vec::new() };
    let advertised = settings.addresses.advertise_url.as_deref().filter(|_| role.is(Role::Core));
    let finding =
        |doubt: Unusable| Finding::warning("tls", format!("{}: {}", doubt.setting, doubt.reason), doubt.remedy);
    identity.doubts(advertised).into_iter().map(finding).collect()
}

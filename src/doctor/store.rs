//! The embedded store: its files, which are opened without changing them.

use std::{path::Path, sync::Arc};

use core_service::{
    keys::{key_ring::KeyRing, secret_check},
    store::{
        Row,
        embedded::{Examined, OpenError, Options, examine},
    },
};
use thesis_net::clock::SystemIdSource;
use tokio::task::spawn_blocking;

use super::finding::Finding;
use crate::{
    config::{Keys, Settings, other_secret_key, refused_file},
    restore, secrets,
};

pub(super) async fn check(settings: &Settings) -> Vec<Finding> {
    let dir = settings.store.data_dir.clone();
    // The check of the settings reports a wrong secret key.
    let secret_key = secrets::found_secret_key(&settings.keys, &dir).ok().flatten();
    // Large files take a while.
    let looking = spawn_blocking(move || {
        if let Err(refused) = restore::demand_finished(&dir) {
            return (Finding::refused("store", refused), Vec::new());
        }
        files(&dir)
    });
    match looking.await {
        Ok((finding, rows)) => {
            let fits = judge("store", &settings.keys, secret_key, &rows);
            [finding].into_iter().chain(fits).collect()
        }
        Err(error) => vec![Finding::broken_off("store", &error)],
    }
}

/// The findings, and the rows that prove the store's secret key.
fn files(dir: &Path) -> (Finding, Vec<Row>) {
    let finding = match examine(dir, Options::default(), &secret_check::scans()) {
        Ok(Examined::Nothing) => Finding::ok("store", "there is none yet; a start makes it"),
        Ok(Examined::Healthy { format, bytes, verified, rows }) => {
            let how = if verified { "every page is whole" } else { "it opens; pages are verified when they are read" };
            let finding = Finding::ok("store", format!("{} MiB in format {format}: {how}", bytes >> 20));
            return (finding, rows);
        }
        Err(error @ OpenError::InUse(_)) => Finding::warning(
            "store",
            format!("not looked into: {error}"),
            "nothing if that is this service; else stop that process before you start",
        ),
        Err(error) => Finding::refused("store", refused_file(dir, &error)),
    };
    (finding, Vec::new())
}

/// The problem of a store that was made with another secret key, unless it shall go on with this one.
pub(super) fn judge(name: &'static str, keys: &Keys, secret_key: Option<[u8; 32]>, rows: &[Row]) -> Option<Finding> {
    let ring = KeyRing::new(&secret_key?, Arc::new(SystemIdSource));
    let refused = other_secret_key(secret_check::judge(rows, &ring))?;
    (!keys.replace_secret_key).then(|| Finding::refused(name, refused))
}

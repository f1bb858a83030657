//! The embedded store: its file, which is opened without changing it.

use std::path::Path;

use core_service::{
    shared::secret_check,
    store::embedded::{Examined, OpenError, Options, examine},
};
use tokio::task::spawn_blocking;

use super::finding::Finding;
use crate::{
    config::{Keys, Settings, other_secret_key, refused_file},
    restore, secrets,
};

/// Looks at the store in the data folder.
pub(super) async fn look(settings: &Settings) -> Vec<Finding> {
    let dir = settings.store.data_dir.clone();
    // The check of the settings tells of a wrong secret key.
    let secret_key = secrets::found_secret_key(&settings.keys, &dir).ok().flatten();
    // A large file takes a while.
    let looking = spawn_blocking(move || {
        if let Err(refused) = restore::demand_finished(&dir) {
            return (Finding::refused("store", refused), None);
        }
        file(&dir)
    });
    match looking.await {
        Ok((finding, made_with)) => {
            let fits = judge("store", &settings.keys, secret_key, made_with.as_deref());
            [finding].into_iter().chain(fits).collect()
        }
        Err(error) => vec![Finding::broken_off("store", &error)],
    }
}

/// What is found, and what the store tells of its secret key.
fn file(dir: &Path) -> (Finding, Option<Vec<u8>>) {
    let (table, key) = secret_check::place();
    let finding = match examine(dir, Options::default(), table, &key) {
        Ok(Examined::Nothing) => Finding::ok("store", "there is none yet; a start makes it"),
        Ok(Examined::Sound { format, bytes, verified, row }) => {
            let how = if verified { "every page is whole" } else { "it opens; pages are verified when they are read" };
            let finding = Finding::ok("store", format!("{} MiB in format {format}: {how}", bytes >> 20));
            return (finding, row.map(Into::into));
        }
        Err(error @ OpenError::InUse(_)) => Finding::warning(
            "store",
            format!("not looked into: {error}"),
            "nothing if that is this service; else stop that process before you start",
        ),
        Err(error) => Finding::refused("store", refused_file(dir, &error)),
    };
    (finding, None)
}

/// The problem of a store that was made with another secret key, unless it shall go on with this one.
pub(super) fn judge(
    name: &'static str,
    keys: &Keys,
    secret_key: Option<[u8; 32]>,
    made_with: Option<&[u8]>,
) -> Option<Finding> {
    let (secret_key, made_with) = secret_key.zip(made_with)?;
    let goes_on = keys.replace_secret_key || secret_check::is_of(made_with, &secret_key);
    (!goes_on).then(|| Finding::refused(name, other_secret_key()))
}

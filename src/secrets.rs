//! The files that the embedded store keeps beside its data: the secret key, the service token, the key of the log, the
//! first test key and the link that makes the first administrator.

use std::{
    fs::{self, DirBuilder},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use core_service::keys::key_ring::{KeyRing, is_api_key};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use thesis_net::clock::{IdSource, SharedIdSource, random};

use crate::config::{Keys, Refused, decode_log_key, decode_secret, encode_secret, judge_token, unusable};

/// The folder of the embedded store's files; it exists after the first start.
const STORE: &str = "store";
pub(crate) const SECRET_KEY: &str = "secret_key";
const SERVICE_TOKEN: &str = "service_token";
const LOG_KEY: &str = "log_key";
const WITNESS_KEY: &str = "witness_key";
const TEST_KEY: &str = "test-key";
const LIVE_KEY: &str = "live-key";
const SET_UP_LINK: &str = "set-up-link";
const SETTING: &str = "SVC_DATA_DIR";

pub(crate) struct Secrets {
    /// All hashes and encrypted values depend on it.
    pub(crate) secret_key: SecretBox<[u8; 32]>,
    /// The credential of edge, worker and admin.
    pub(crate) service_token: SecretString,
    /// The key that signs the log, if it is signed.
    pub(crate) log_key: Option<SecretBox<[u8; 32]>>,
}

/// A secret in a file that only its owner can read.
pub(crate) struct KeptSecret {
    pub(crate) text: SecretString,
    /// Its absolute path.
    pub(crate) file: PathBuf,
    /// True unless an earlier start has shown it.
    pub(crate) is_new: bool,
}

impl Secrets {
    /// The secrets that are set, which a cluster's cores must share.
    pub(crate) fn given(keys: &Keys) -> Result<Self, Refused> {
        Ok(Self {
            secret_key: SecretBox::new(Box::new(Self::secret_key_given(keys)?)),
            service_token: Self::service_token_given(keys)?,
            log_key: keys.cluster_log_key()?.map(|key| SecretBox::new(Box::new(key))),
        })
    }

    pub(crate) fn secret_key_given(keys: &Keys) -> Result<[u8; 32], Refused> {
        keys.secret_key()?.ok_or_else(|| missing("SVC_SECRET_KEY"))
    }

    pub(crate) fn service_token_given(keys: &Keys) -> Result<SecretString, Refused> {
        keys.service_token()?.ok_or_else(|| missing("SVC_SERVICE_TOKEN"))
    }

    /// The secrets that are set or kept in the data folder; made there at the first start.
    pub(crate) fn kept(keys: &Keys, dir: &Path, ids: &dyn IdSource) -> Result<Self, Refused> {
        // All are judged before one is made.
        let (secret_key, service_token) = (found_secret_key(keys, dir)?, found_service_token(keys, dir)?);
        let log_key = found_log_key(keys, dir)?;
        let secret_key = match secret_key {
            Some(key) => key,
            None => decode_secret("SVC_SECRET_KEY", &keep(dir, SECRET_KEY, || encode_secret(random(ids)))?)?,
        };
        let service_token = match service_token {
            Some(token) => token,
            None => keep(dir, SERVICE_TOKEN, || encode_secret(random(ids)))?.into(),
        };
        let log_key = match log_key {
            Some(key) => key,
            None => decode_log_key(&keep(dir, LOG_KEY, || encode_secret(random(ids)))?, &shown(dir, LOG_KEY))?,
        };
        let (secret_key, log_key) = (SecretBox::new(Box::new(secret_key)), SecretBox::new(Box::new(log_key)));
        Ok(Self { secret_key, service_token, log_key: Some(log_key) })
    }
}

/// Tells that a cluster's core lacks a secret.
fn missing(setting: &'static str) -> Refused {
    Refused::new(setting, "is not set, but SVC_STORE=scylla needs it")
        .remedy("set what `openssl rand -base64 32` prints, the same for every process")
}

/// The secret key that is set or kept in the data folder; none if a start would make one: the first, or one that may be
/// without the old key.
pub(crate) fn found_secret_key(keys: &Keys, dir: &Path) -> Result<Option<[u8; 32]>, Refused> {
    if let Some(key) = keys.secret_key()? {
        return Ok(Some(key));
    }
    let file = dir.join(SECRET_KEY);
    let Some(text) = kept(dir, SECRET_KEY)? else {
        if keys.replace_secret_key || !dir.join(STORE).exists() {
            return Ok(None);
        }
        let reason = format!("is not set, and {} is missing, with which the data there was made", file.display());
        return Err(Refused::new("SVC_SECRET_KEY", reason).remedy(
            "put the file back from a copy, or set its text; if it is lost, so are all API keys, webhook secrets and \
             sessions: to go on without them, with a new key, set SVC_REPLACE_SECRET_KEY=true for one start",
        ));
    };
    let key = decode_secret("SVC_SECRET_KEY", &text).map_err(|_| {
        Refused::new("SVC_SECRET_KEY", format!("is not set, and {} is not 32 bytes in base64", file.display()))
            .remedy("put the file back from a copy, or set the key that the data was made with")
    })?;
    Ok(Some(key))
}

/// The service token that is set or kept in the data folder; none if core would make one.
pub(crate) fn found_service_token(keys: &Keys, dir: &Path) -> Result<Option<SecretString>, Refused> {
    if let Some(token) = keys.service_token()? {
        return Ok(Some(token));
    }
    let file = dir.join(SERVICE_TOKEN);
    kept(dir, SERVICE_TOKEN)?.map(|token| judge_token(token.into(), &file.display().to_string())).transpose()
}

/// The key of the log that is set or kept in the data folder; none if core would make one. A replaced key stays listed
/// beside the log, so a lost one loses no receipt.
pub(crate) fn found_log_key(keys: &Keys, dir: &Path) -> Result<Option<[u8; 32]>, Refused> {
    match keys.log_key()? {
        Some(key) => Ok(Some(key)),
        None => kept(dir, LOG_KEY)?.map(|text| decode_log_key(&text, &shown(dir, LOG_KEY))).transpose(),
    }
}

/// The key of a witness, made in its data folder at the first start.
pub(crate) fn witness_key(dir: &Path, ids: &dyn IdSource) -> Result<[u8; 32], Refused> {
    let text = keep(dir, WITNESS_KEY, || encode_secret(random(ids)))?;
    decode_secret(SETTING, &text).map_err(|_| {
        Refused::new(SETTING, format!("{} is not 32 bytes in base64", shown(dir, WITNESS_KEY)))
            .remedy("put the file back from a copy; if it is lost, name another folder, which begins a new witness")
    })
}

fn shown(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// The data folder, made for its owner alone if there is none.
pub(crate) fn folder(dir: &Path) -> Result<(), Refused> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at(dir))
}

/// The service token of a process beside core: set, or kept by a core on this machine.
pub(crate) fn service_token(keys: &Keys, dir: &Path) -> Result<SecretString, Refused> {
    if let Some(token) = keys.service_token()? {
        return Ok(token);
    }
    let file = dir.join(SERVICE_TOKEN);
    let token = fs::read_to_string(&file).map_err(|error| {
        Refused::new("SVC_SERVICE_TOKEN", format!("is not set, and {} cannot be read: {error}", file.display()))
            .remedy("set the token that core has, or set SVC_DATA_DIR to core's data folder on this machine")
    })?;
    judge_token(token.trim().into(), &file.display().to_string())
}

/// The files of secrets that are there, and their permissions. The store's folder is among them where others may enter
/// the data folder.
pub(crate) fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mode = |file: &Path| Some(fs::metadata(file).ok()?.permissions().mode() & 0o7777);
    let may_enter = mode(dir).is_some_and(|mode| mode & 0o011 != 0);
    let files = [SECRET_KEY, SERVICE_TOKEN, LOG_KEY, TEST_KEY, LIVE_KEY, SET_UP_LINK].into_iter();
    let files = files.chain(may_enter.then_some(STORE)).map(|name| dir.join(name));
    files.filter_map(|file| mode(&file).map(|mode| (file, mode))).collect()
}

/// The test key kept in the data folder. The first start makes one, before the store, so that a start after a failed
/// one has the same key. Once its reader has deleted the file, there is no key.
pub(crate) fn first_key(dir: &Path, secret_key: &[u8; 32], ids: SharedIdSource) -> Result<Option<KeptSecret>, Refused> {
    let file = std::path::absolute(dir.join(TEST_KEY)).map_err(at(dir))?;
    let is_new = !dir.join(STORE).exists();
    if !is_new && !file.exists() {
        return Ok(None);
    }
    let key = match found_first_key(dir)? {
        Some(key) => key,
        None => keep(dir, TEST_KEY, || KeyRing::new(secret_key, ids).new_api_key(false))?,
    };
    Ok(Some(KeptSecret { text: key.into(), file, is_new }))
}

/// The test key kept in the data folder.
pub(crate) fn found_first_key(dir: &Path) -> Result<Option<String>, Refused> {
    match kept(dir, TEST_KEY)? {
        Some(key) if !is_api_key(&key) => {
            let file = dir.join(TEST_KEY);
            Err(Refused::new(SETTING, format!("{} holds no API key", file.display()))
                .remedy("remove that file; keys are made by `trade-thesis admin key create` too"))
        }
        key => Ok(key),
    }
}

/// Keeps the link that makes the first administrator; without one, an earlier one is removed.
pub(crate) fn set_up_link(dir: &Path, link: Option<&SecretString>) -> Result<Option<KeptSecret>, Refused> {
    let file = std::path::absolute(dir.join(SET_UP_LINK)).map_err(at(dir))?;
    // The address in it may have changed.
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&file)(error)),
        _ => {}
    }
    let Some(link) = link else { return Ok(None) };
    keep(dir, SET_UP_LINK, || link.expose_secret().to_owned())?;
    Ok(Some(KeptSecret { text: link.clone(), file, is_new: true }))
}

pub(crate) fn live_key(dir: &Path, ids: SharedIdSource) -> Result<KeptSecret, Refused> {
    let file = std::path::absolute(dir.join(LIVE_KEY)).map_err(at(dir))?;
    // Its characters come from the randomness alone.
    let key = keep(dir, LIVE_KEY, || KeyRing::new(&[0; 32], ids).new_api_key(true))?;
    Ok(KeptSecret { text: key.into(), file, is_new: true })
}

pub(crate) fn token(ids: &dyn IdSource) -> String {
    encode_secret(random(ids))
}

/// The text in a file; without one, a file that only its owner can read is made, whole or not at all.
fn keep(dir: &Path, name: &str, make: impl FnOnce() -> String) -> Result<String, Refused> {
    if let Some(text) = kept(dir, name)? {
        return Ok(text);
    }
    let file = dir.join(name);
    write(dir, &file, &make()).map_err(at(&file))?;
    // Another process may have been faster: then its text counts.
    fs::read_to_string(&file).map(|text| text.trim().to_owned()).map_err(at(&file))
}

/// The text in a file, if there is one.
fn kept(dir: &Path, name: &str) -> Result<Option<String>, Refused> {
    let file = dir.join(name);
    match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(|text| Some(text.trim().to_owned())).map_err(at(&file)),
    }
}

fn write(dir: &Path, file: &Path, text: &str) -> io::Result<()> {
    // Made with mode 0600.
    let mut draft = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(file) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(error.error),
        _ => {}
    }
    fs::File::open(dir)?.sync_all()
}

fn at(path: &Path) -> impl Fn(io::Error) -> Refused + '_ {
    move |error| Refused::new(SETTING, format!("{}: {error}", path.display())).remedy(unusable(path, &error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thesis_net::clock::SystemIdSource;

    use super::*;

    fn first(dir: &Path) -> Option<KeptSecret> {
        first_key(dir, &[1; 32], Arc::new(SystemIdSource)).unwrap()
    }

    #[test]
    fn files_are_created_once_and_only_their_owner_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let created = keep(dir.path(), SERVICE_TOKEN, || "one".to_owned()).unwrap();
        let kept = keep(dir.path(), SERVICE_TOKEN, || "two".to_owned()).unwrap();
        assert_eq!((created.as_str(), kept.as_str()), ("one", "one"));
        let mode = fs::metadata(dir.path().join(SERVICE_TOKEN)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_set_up_link_is_kept_while_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        for link in ["http://a/1", "http://b/1"] {
            let kept = set_up_link(dir.path(), Some(&link.into())).unwrap().unwrap();
            assert!(kept.file.is_absolute() && kept.text.expose_secret() == link);
            assert_eq!(fs::read_to_string(&kept.file).unwrap(), link);
            assert_eq!(fs::metadata(&kept.file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        for _ in 0..2 {
            assert!(set_up_link(dir.path(), None).unwrap().is_none());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn the_first_start_makes_a_test_key_and_only_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let created = first(dir.path()).unwrap();
        // A start that failed before there was a store: the same key again.
        let again = first(dir.path()).unwrap();
        assert!(
            created.is_new
                && again.is_new
                && created.text.expose_secret() == again.text.expose_secret()
                && created.file.is_absolute()
        );
        fs::create_dir(dir.path().join(STORE)).unwrap();
        let later = first(dir.path()).unwrap();
        assert!(!later.is_new && later.text.expose_secret() == created.text.expose_secret());
        fs::remove_file(created.file).unwrap();
        assert!(first(dir.path()).is_none());
    }
}

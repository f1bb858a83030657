//! The files that the embedded store keeps beside its data: the secret key, the service token, the first test key and the
//! link that makes the first administrator.

use std::{
    fs::{self, DirBuilder},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use core_service::shared::key_ring::{KeyRing, is_api_key};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use thesis_net::clock::{IdSource, SharedIdSource};

use crate::config::{Keys, Refused, decode_secret, encode_secret};

/// The embedded store's file; it exists after the first start.
const STORE: &str = "store.redb";
const SECRET_KEY: &str = "secret_key";
const SERVICE_TOKEN: &str = "service_token";
const TEST_KEY: &str = "test-key";
const LIVE_KEY: &str = "live-key";
const SET_UP_LINK: &str = "set-up-link";
const SETTING: &str = "SVC_DATA_DIR";

/// The secrets that core needs.
pub(crate) struct Secrets {
    /// All hashes and encrypted values depend on it.
    pub(crate) secret_key: SecretBox<[u8; 32]>,
    /// The credential of edge, worker and admin.
    pub(crate) service_token: SecretString,
}

/// The test key of an installation that was given none.
pub(crate) struct FirstKey {
    /// The raw key.
    pub(crate) key: SecretString,
    /// Where it is kept, as an absolute path.
    pub(crate) file: PathBuf,
    /// Whether this start is the first.
    pub(crate) made: bool,
}

/// The link that makes the first administrator.
pub(crate) struct SetUpLink {
    /// The link.
    pub(crate) link: SecretString,
    /// Where it is kept, as an absolute path.
    pub(crate) file: PathBuf,
}

impl Secrets {
    /// The secrets that are set, which a cluster's cores must share.
    pub(crate) fn given(keys: &Keys) -> Result<Self, Refused> {
        let missing = |setting| Refused::new(setting, "SVC_STORE=scylla needs it, the same for every process");
        Ok(Self {
            secret_key: SecretBox::new(Box::new(keys.secret_key()?.ok_or_else(|| missing("SVC_SECRET_KEY"))?)),
            service_token: keys.service_token()?.ok_or_else(|| missing("SVC_SERVICE_TOKEN"))?,
        })
    }

    /// The secrets that are set or kept in the data folder; made there at the first start.
    pub(crate) fn kept(keys: &Keys, dir: &Path, ids: &dyn IdSource) -> Result<Self, Refused> {
        let secret_key = match keys.secret_key()? {
            Some(key) => key,
            None if dir.join(STORE).exists() && !dir.join(SECRET_KEY).exists() => {
                return Err(Refused::new(
                    "SVC_SECRET_KEY",
                    "the data in the data folder was made with a key that is neither set nor kept there",
                ));
            }
            None => decode_secret("SVC_SECRET_KEY", &keep(dir, SECRET_KEY, || encode_secret(random(ids)))?)?,
        };
        let service_token = match keys.service_token()? {
            Some(token) => token,
            None => keep(dir, SERVICE_TOKEN, || encode_secret(random(ids)))?.into(),
        };
        Ok(Self { secret_key: SecretBox::new(Box::new(secret_key)), service_token })
    }
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
    fs::read_to_string(&file).map(|token| token.trim().into()).map_err(|error| {
        Refused::new("SVC_SERVICE_TOKEN", format!("not set, and {} cannot be read: {error}", file.display()))
    })
}

/// The test key kept in the data folder. The first start makes one, before the store, so that a start after a failed
/// one has the same key. Once its reader has deleted the file, there is no key.
pub(crate) fn first_key(dir: &Path, secret_key: &[u8; 32], ids: SharedIdSource) -> Result<Option<FirstKey>, Refused> {
    let file = std::path::absolute(dir.join(TEST_KEY)).map_err(at(dir))?;
    let made = !dir.join(STORE).exists();
    if !made && !file.exists() {
        return Ok(None);
    }
    let key = keep(dir, TEST_KEY, || KeyRing::new(secret_key, ids).new_api_key(false))?;
    if !is_api_key(&key) {
        return Err(Refused::new(SETTING, format!("{} holds no API key", file.display())));
    }
    Ok(Some(FirstKey { key: key.into(), file, made }))
}

/// Keeps the link that makes the first administrator; without one, an earlier one is removed.
pub(crate) fn set_up_link(dir: &Path, link: Option<&SecretString>) -> Result<Option<SetUpLink>, Refused> {
    let file = std::path::absolute(dir.join(SET_UP_LINK)).map_err(at(dir))?;
    // The address in it may have changed.
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&file)(error)),
        _ => {}
    }
    let Some(link) = link else { return Ok(None) };
    keep(dir, SET_UP_LINK, || link.expose_secret().to_owned())?;
    Ok(Some(SetUpLink { link: link.clone(), file }))
}

/// A new live key, kept in a folder.
pub(crate) fn live_key(dir: &Path, ids: SharedIdSource) -> Result<(SecretString, PathBuf), Refused> {
    let file = std::path::absolute(dir.join(LIVE_KEY)).map_err(at(dir))?;
    // Its characters come from the randomness alone.
    let key = keep(dir, LIVE_KEY, || KeyRing::new(&[0; 32], ids).new_api_key(true))?;
    Ok((key.into(), file))
}

/// A new credential.
pub(crate) fn token(ids: &dyn IdSource) -> String {
    encode_secret(random(ids))
}

/// The text in a file; without one, a file that only its owner can read is made, whole or not at all.
fn keep(dir: &Path, name: &str, make: impl FnOnce() -> String) -> Result<String, Refused> {
    let file = dir.join(name);
    match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read.map(|text| text.trim().to_owned()).map_err(at(&file)),
    }
    write(dir, &file, &make()).map_err(at(&file))?;
    // Another process may have been faster: then its text counts.
    fs::read_to_string(&file).map(|text| text.trim().to_owned()).map_err(at(&file))
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

fn random(ids: &dyn IdSource) -> [u8; 32] {
    let mut bytes = [0; 32];
    ids.fill(&mut bytes);
    bytes
}

fn at(path: &Path) -> impl Fn(io::Error) -> Refused + '_ {
    move |error| Refused::new(SETTING, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

    use thesis_net::clock::SystemIdSource;

    use super::*;

    fn first(dir: &Path) -> Option<FirstKey> {
        first_key(dir, &[1; 32], Arc::new(SystemIdSource)).unwrap()
    }

    #[test]
    fn files_are_made_once_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let made = keep(dir.path(), SERVICE_TOKEN, || "one".to_owned()).unwrap();
        let kept = keep(dir.path(), SERVICE_TOKEN, || "two".to_owned()).unwrap();
        assert_eq!((made.as_str(), kept.as_str()), ("one", "one"));
        let mode = fs::metadata(dir.path().join(SERVICE_TOKEN)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_set_up_link_is_kept_while_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        for link in ["http://a/1", "http://b/1"] {
            let kept = set_up_link(dir.path(), Some(&link.into())).unwrap().unwrap();
            assert!(kept.file.is_absolute() && kept.link.expose_secret() == link);
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
        let made = first(dir.path()).unwrap();
        // A start that failed before there was a store: the same key again.
        let again = first(dir.path()).unwrap();
        assert!(
            made.made && again.made && made.key.expose_secret() == again.key.expose_secret() && made.file.is_absolute()
        );
        fs::write(dir.path().join(STORE), "").unwrap();
        let later = first(dir.path()).unwrap();
        assert!(!later.made && later.key.expose_secret() == made.key.expose_secret());
        fs::remove_file(made.file).unwrap();
        assert!(first(dir.path()).is_none());
    }
}

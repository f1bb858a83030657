//! The API key and the address of the API: from the command line, the environment, or a profile.
//!
//! Profiles are in one file that only its owner may read: `trade-thesis/profiles.toml` in the configuration folder.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::{Failure, config::api_url};

/// The name of the default profile.
const DEFAULT_PROFILE: &str = "default";
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8080";
/// The heading of these flags in the help.
pub(crate) const HEADING: &str = "Account";

/// The key, profile and address on the command line and in the environment.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct Account {
    /// API key [default: that of the profile]
    #[arg(long, global = true, env = "SVC_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<SecretString>,
    /// Profile with the key and the address; `trade-thesis api login` creates one [default: default]
    #[arg(long, global = true, env = "SVC_PROFILE", hide_env_values = true, value_name = "NAME")]
    profile: Option<String>,
    /// Address of the API [default: that of the profile, or http://127.0.0.1:8080]
    #[arg(
        long,
        global = true,
        env = "SVC_API_URL",
        hide_env_values = true,
        value_name = "URL",
        value_parser = api_url
    )]
    api: Option<String>,
}

/// A key, and the address of the API.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) key: SecretString,
    /// Without a trailing slash.
    pub(crate) base: String,
}

/// A profile as stored in the file.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    key: String,
    api: String,
}

impl Profile {
    fn address(&self) -> Result<String, Failure> {
        Ok(api_url(&self.api).map_err(|why| format!("the address `api` of the profile: {why}"))?)
    }
}

type Profiles = BTreeMap<String, Profile>;

impl Account {
    /// The key and the address to use.
    pub(crate) fn credentials(self) -> Result<Credentials, Failure> {
        self.credentials_in(file)
    }

    fn credentials_in(self, file: impl FnOnce() -> Result<PathBuf, Failure>) -> Result<Credentials, Failure> {
        let (key, base) = match (self.key, self.profile) {
            // The two keys may be one for test data and one for live data, so guessing is dangerous.
            (Some(_), Some(name)) => {
                let text = format!("--key or SVC_KEY, and the profile {name}, name two keys; give one of them");
                return Err(text.into());
            }
            (Some(key), None) => (key, DEFAULT_ADDRESS.to_owned()),
            (None, name) => {
                let profile = profile(&file()?, name.as_deref())?;
                let base = profile.address()?;
                (profile.key.into(), base)
            }
        };
        Ok(Credentials { key, base: self.api.unwrap_or(base) })
    }

    /// The key on the command line or in the environment.
    pub(crate) fn key(&self) -> Option<&SecretString> {
        self.key.as_ref()
    }

    /// The address for the profile of a new key. A profile that exists keeps its own unless another one is given.
    pub(crate) fn address(&self) -> Result<String, Failure> {
        self.address_in(file)
    }

    fn address_in(&self, file: impl FnOnce() -> Result<PathBuf, Failure>) -> Result<String, Failure> {
        if let Some(api) = &self.api {
            return Ok(api.clone());
        }
        let profiles = read(&file()?)?;
        profiles.get(self.profile_name()).map_or_else(|| Ok(DEFAULT_ADDRESS.to_owned()), Profile::address)
    }

    fn profile_name(&self) -> &str {
        self.profile.as_deref().unwrap_or(DEFAULT_PROFILE)
    }

    /// Stores a key and its address in the profile, in place of the old ones. Returns the profile's name and the file.
    pub(crate) fn keep(&self, credentials: &Credentials) -> Result<(String, PathBuf), Failure> {
        let (name, file) = (self.profile_name().to_owned(), file()?);
        keep(&file, &name, credentials)?;
        Ok((name, file))
    }
}

/// The file with the profiles.
fn file() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = named.or_else(|| Some(std::env::home_dir()?.join(".config")));
    let folder = folder.ok_or("there is no home folder for the file with the profiles; set HOME or SVC_KEY")?;
    Ok(folder.join("trade-thesis").join("profiles.toml"))
}

/// Reads a profile, which must be there.
fn profile(file: &Path, name: Option<&str>) -> Result<Profile, Failure> {
    let mut profiles = read(file)?;
    let found = profiles.remove(name.unwrap_or(DEFAULT_PROFILE));
    found.ok_or_else(|| match name {
        None => "there is no API key; set SVC_KEY, or store a key with `trade-thesis api login`".into(),
        Some(name) if profiles.is_empty() => {
            format!("there is no profile {name}; create it with `trade-thesis api login --profile {name}`").into()
        }
        Some(name) => {
            let known: Vec<_> = profiles.keys().map(String::as_str).collect();
            format!("there is no profile {name}; there are {}", known.join(", ")).into()
        }
    })
}

/// Reads all profiles; none if there is no file. Refuses a file that others may read.
fn read(path: &Path) -> Result<Profiles, Failure> {
    let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Profiles::new()),
        Err(error) => return Err(unreadable(error).into()),
    };
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = path.display();
        return Err(format!("others may use {path}, which has keys (mode {mode:04o}); run: chmod 600 {path}").into());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    // The parser's error would show the line, which may contain a key.
    toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("{}:{line}: a profile is a table [NAME] with the texts `key` and `api`", path.display()).into()
    })
}

/// Writes a profile and leaves the others. The file is replaced atomically, and only its owner may read it.
fn keep(path: &Path, name: &str, credentials: &Credentials) -> Result<(), Failure> {
    let mut profiles = read(path)?;
    let key = credentials.key.expose_secret().to_owned();
    profiles.insert(name.to_owned(), Profile { key, api: credentials.base.clone() });
    let unwritable = |error: io::Error| format!("{} cannot be written: {error}", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unwritable)?;
    // A symbolic link to the file stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // The mode of a temporary file is 0600.
    let mut draft = NamedTempFile::new_in(path.parent().unwrap_or(folder)).map_err(unwritable)?;
    draft.write_all(toml::to_string(&profiles)?.as_bytes()).map_err(unwritable)?;
    draft.as_file().sync_all().map_err(unwritable)?;
    draft.persist(&path).map_err(|error| unwritable(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    fn account(key: Option<&str>, profile: Option<&str>, api: Option<&str>) -> Account {
        Account { key: key.map(Into::into), profile: profile.map(str::to_owned), api: api.map(str::to_owned) }
    }

    /// The key and the address of an account, or why there is none.
    fn credentials_of(account: Account, file: &Path) -> Result<(String, String), String> {
        let credentials = account.credentials_in(|| Ok(file.to_owned())).map_err(|error| error.to_string())?;
        Ok((credentials.key.expose_secret().to_owned(), credentials.base))
    }

    fn pair(key: &str, base: &str) -> Result<(String, String), String> {
        Ok((key.to_owned(), base.to_owned()))
    }

    #[test]
    fn a_profile_is_kept_and_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trade-thesis/profiles.toml");
        let none = credentials_of(account(None, None, None), &file).unwrap_err();
        assert!(none.contains("SVC_KEY") && none.contains("api login"), "{none}");
        for (name, key, base) in
            [("default", "k1", "http://a"), ("live", "k2", "https://b"), ("live", "k3", "https://c/")]
        {
            keep(&file, name, &Credentials { key: key.into(), base: base.to_owned() }).unwrap();
        }
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(credentials_of(account(None, None, None), &file), pair("k1", "http://a"));
        assert_eq!(credentials_of(account(None, Some("live"), None), &file), pair("k3", "https://c"));
        assert_eq!(credentials_of(account(None, Some("live"), Some("http://d")), &file), pair("k3", "http://d"));
        assert_eq!(credentials_of(account(Some("k4"), None, None), &file), pair("k4", DEFAULT_ADDRESS));
        assert!(credentials_of(account(Some("k4"), Some("live"), None), &file).unwrap_err().contains("two keys"));
        assert!(
            credentials_of(account(None, Some("lvie"), None), &file).unwrap_err().ends_with("there are default, live")
        );
    }

    #[test]
    fn a_new_key_keeps_the_address_of_its_profile() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profiles.toml");
        let address = |profile, api| {
            account(Some("k"), profile, api).address_in(|| Ok(file.clone())).map_err(|error| error.to_string())
        };
        assert_eq!(address(Some("live"), None).as_deref(), Ok(DEFAULT_ADDRESS));
        for (name, base) in [("default", "http://a"), ("live", "https://b/"), ("broken", "b")] {
            keep(&file, name, &Credentials { key: "k".into(), base: base.to_owned() }).unwrap();
        }
        assert_eq!(address(None, None).as_deref(), Ok("http://a"));
        assert_eq!(address(Some("live"), None).as_deref(), Ok("https://b"));
        assert_eq!(address(Some("live"), Some("http://c")).as_deref(), Ok("http://c"));
        assert_eq!(address(Some("other"), None).as_deref(), Ok(DEFAULT_ADDRESS));
        assert!(address(Some("broken"), None).unwrap_err().contains("`api` of the profile"));
    }

    #[test]
    fn a_file_that_others_may_use_or_that_is_wrong_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("profiles.toml");
        fs::write(&file, "[default]\nkey = \"svc_test_secret\"\nurl = \"http://a\"\n").unwrap();
        for mode in [0o644, 0o640, 0o602] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let refused = credentials_of(account(None, None, None), &file).unwrap_err();
            assert!(refused.contains(&format!("mode {mode:04o}")) && refused.contains("chmod 600"), "{refused}");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let refused = credentials_of(account(None, None, None), &file).unwrap_err();
        assert!(refused.contains("`key` and `api`") && !refused.contains("secret"), "{refused}");
    }
}

//! `api login`: stores a key in a profile.

use std::io::{self, BufRead as _, IsTerminal as _};

use reqwest::Client;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use thesis_net::clock::SharedIdSource;

use super::client::ApiClient;
use crate::{
    Failure,
    account::{Account, Credentials},
    terminal::{plain, say, write_stderr},
};

/// Checks that the API accepts the given key, or else one from stdin, and stores it.
pub(super) async fn run(account: &Account, http: Client, ids: SharedIdSource) -> Result<(), Failure> {
    let base = account.address()?;
    let key = account.key().cloned().map_or_else(read_key, Ok)?;
    let kept = Credentials { key: key.clone(), base: base.clone() };
    let client = ApiClient::new(http, Credentials { key, base }, ids);
    let info: Value = serde_json::from_str(&client.get(&["me"], &[]).await?)?;
    let (name, file) = account.keep(&kept)?;
    let text = |place: &str| plain(info.pointer(place).unwrap_or(&Value::Null));
    say(&format!(
        "profile {name}: the {} key {} of the project {}, stored in {}",
        text("/environment"),
        text("/prefix"),
        text("/project/name"),
        file.display()
    ))?;
    Ok(())
}

/// Reads the first line of stdin, which a terminal does not show.
fn read_key() -> Result<SecretString, Failure> {
    let _hidden = Hidden::new();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let key = SecretString::from(line.trim());
    if key.expose_secret().is_empty() {
        return Err("there is no key on stdin; paste it, or write it into a pipe".into());
    }
    Ok(key)
}

/// Turns off the terminal's echo until it is dropped.
struct Hidden(Option<Termios>);

impl Hidden {
    fn new() -> Self {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Self(None);
        }
        write_stderr("API key: ");
        let before = tcgetattr(&stdin).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes.remove(LocalModes::ECHO);
            // If this fails, the typed key is visible, which is no reason to stop.
            let _ = tcsetattr(&stdin, OptionalActions::Flush, &modes);
        }
        Self(before)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(modes) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
            write_stderr("\n");
        }
    }
}

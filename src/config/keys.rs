//! Secrets, the keys that exist after the start, and plans.

use std::path::PathBuf;

use base64::{Engine as _, alphabet, engine};
use clap::Args;
use core_service::{
    domain::plan::Plans,
    operations::admin::bootstrap::Bootstrap,
    shared::key_ring::{LIVE_PREFIX, TEST_PREFIX, is_api_key},
};
use secrecy::{ExposeSecret as _, SecretString};

use super::{Refused, plans};

const BASE64: engine::GeneralPurpose = engine::GeneralPurpose::new(
    &alphabet::STANDARD,
    engine::GeneralPurposeConfig::new().with_decode_padding_mode(engine::DecodePaddingMode::Indifferent),
);
const TOKEN_LENGTH: usize = 32;

// Values of secrets are checked here, not by the command line's parser, which would print a wrong one.
/// Secrets, first keys and plans.
#[derive(Debug, Args)]
#[command(next_help_heading = "Keys")]
pub(crate) struct Keys {
    /// 32 bytes in base64, for hashing keys and encrypting webhook secrets [default: made and kept in the data folder;
    /// required with SVC_STORE=scylla]
    #[arg(long, env = "SVC_SECRET_KEY", value_name = "BASE64")]
    secret_key: Option<SecretString>,
    /// Credential of edge, worker and admin toward core, 32 characters or more [default: made and kept in the data
    /// folder, where edge, worker and admin look for it; required with SVC_STORE=scylla]
    #[arg(long, env = "SVC_SERVICE_TOKEN", value_name = "TOKEN")]
    service_token: Option<SecretString>,
    /// Test key that exists after the start [default: the first start on the embedded store makes one]
    #[arg(long, env = "SVC_BOOTSTRAP_TEST_KEY", value_name = "KEY")]
    bootstrap_test_key: Option<SecretString>,
    /// Live key that exists after the start [default: none]
    #[arg(long, env = "SVC_BOOTSTRAP_LIVE_KEY", value_name = "KEY")]
    bootstrap_live_key: Option<SecretString>,
    /// Plan of those keys' organization [default: business]
    #[arg(long, env = "SVC_BOOTSTRAP_PLAN", value_name = "PLAN")]
    bootstrap_plan: Option<String>,
    /// TOML file that replaces the built-in plans [default: none]
    #[arg(long, env = "SVC_PLANS_FILE", value_name = "FILE")]
    plans_file: Option<PathBuf>,
}

impl Keys {
    /// Lets a live key exist after the start.
    pub(crate) fn demonstrate(&mut self, live_key: SecretString) {
        self.bootstrap_live_key = Some(live_key);
    }

    /// The secret key, if one is set.
    pub(crate) fn secret_key(&self) -> Result<Option<[u8; 32]>, Refused> {
        let decode = |text: &SecretString| decode_secret("SVC_SECRET_KEY", text.expose_secret());
        self.secret_key.as_ref().map(decode).transpose()
    }

    /// The service token, if one is set.
    pub(crate) fn service_token(&self) -> Result<Option<SecretString>, Refused> {
        let Some(token) = &self.service_token else { return Ok(None) };
        let text = token.expose_secret();
        if text.len() < TOKEN_LENGTH || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = format!("it must be {TOKEN_LENGTH} or more printable ASCII characters without spaces");
            return Err(Refused::new("SVC_SERVICE_TOKEN", reason));
        }
        Ok(Some(token.clone()))
    }

    /// Plans by name.
    pub(crate) fn plans(&self) -> Result<Plans, Refused> {
        match &self.plans_file {
            None => plans::built_in(),
            Some(path) => plans::read(path),
        }
    }

    /// The keys that exist after the start.
    pub(crate) fn bootstrap(&self, plans: &Plans) -> Result<Bootstrap, Refused> {
        let is_key = |key: &str, prefix: &str| is_api_key(key) && key.starts_with(prefix);
        let key = |setting, prefix: &str, key: &Option<SecretString>| match key {
            Some(key) if !is_key(key.expose_secret(), prefix) => {
                Err(Refused::new(setting, format!("a key is {prefix} and 40 letters or digits")))
            }
            key => Ok(key.clone()),
        };
        let plan = self.bootstrap_plan.as_deref().unwrap_or("business");
        if !plans.contains_key(plan) {
            let known = plans.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Refused::new("SVC_BOOTSTRAP_PLAN", format!("`{plan}` is none of the plans: {known}")));
        }
        Ok(Bootstrap {
            test_key: key("SVC_BOOTSTRAP_TEST_KEY", TEST_PREFIX, &self.bootstrap_test_key)?,
            live_key: key("SVC_BOOTSTRAP_LIVE_KEY", LIVE_PREFIX, &self.bootstrap_live_key)?,
            plan: self.bootstrap_plan.clone(),
        })
    }
}

/// Reads a secret's text form.
pub(crate) fn decode_secret(setting: &'static str, text: &str) -> Result<[u8; 32], Refused> {
    let bytes = BASE64.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes
        .ok_or_else(|| Refused::new(setting, "it must be 32 bytes in base64, such as `openssl rand -base64 32` prints"))
}

/// A secret's text form.
pub(crate) fn encode_secret(secret: [u8; 32]) -> String {
    BASE64.encode(secret)
}

//! Secrets, the keys that exist after the start, and plans.

use std::path::PathBuf;

use base64::{Engine as _, alphabet, engine};
use clap::{ArgAction, Args};
use core_service::{
    Bootstrap, WitnessSettings,
    domain::plan::Plans,
    keys::{
        key_ring::{LIVE_PREFIX, TEST_PREFIX, is_api_key},
        secret_check::Fit,
    },
};
use secrecy::{ExposeSecret as _, SecretString};

use super::{Refused, parse, plans};

const BASE64: engine::GeneralPurpose = engine::GeneralPurpose::new(
    &alphabet::STANDARD,
    engine::GeneralPurposeConfig::new().with_decode_padding_mode(engine::DecodePaddingMode::Indifferent),
);
const MIN_TOKEN_LENGTH: usize = 32;
/// Maximum number of witnesses. Each adds a line to every checkpoint, and verifiers accept 64 lines.
const MAX_WITNESSES: usize = 16;

// Values of secrets are checked here, not by the command line's parser, which would print a wrong one.
/// Secrets, first keys and plans.
#[derive(Debug, Args)]
#[command(next_help_heading = "Keys")]
pub(crate) struct Keys {
    /// 32 bytes in base64, for hashing keys and encrypting webhook secrets [default: created and stored in the data
    /// folder; required with SVC_STORE=scylla]
    #[arg(long, env = "SVC_SECRET_KEY", value_name = "BASE64")]
    secret_key: Option<SecretString>,
    /// Continue with another secret key than that of the store, whose API keys, webhook secrets and sessions are lost.
    /// On the embedded store a lost key is replaced by a new one
    #[arg(
        long,
        env = "SVC_REPLACE_SECRET_KEY",
        value_name = "BOOL",
        default_value_t = false,
        action = ArgAction::Set
    )]
    pub(crate) replace_secret_key: bool,
    /// 32 bytes in base64, the key that signs the log, so that receipts can be checked offline [default: created and
    /// stored in the data folder; with SVC_STORE=scylla none, and no receipts]
    #[arg(long, env = "SVC_LOG_KEY", value_name = "BASE64")]
    log_key: Option<SecretString>,
    /// Witnesses that cosign the log, 16 at most, each as its key, a space and its URL [default: none]
    #[arg(
        long,
        env = "SVC_WITNESSES",
        value_name = "KEY URL,…",
        value_delimiter = ',',
        value_parser = parse::witness
    )]
    witnesses: Vec<WitnessSettings>,
    /// Credential of edge, worker and admin toward core, 32 characters or more [default: created and stored in the
    /// data folder, where edge, worker and admin find it; required with SVC_STORE=scylla]
    #[arg(long, env = "SVC_SERVICE_TOKEN", value_name = "TOKEN")]
    service_token: Option<SecretString>,
    /// Test key that exists after the start [default: the first start on the embedded store creates one]
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

/// Tells that a store was made with another secret key, if it was.
pub(crate) fn other_secret_key(fit: Fit) -> Option<Refused> {
    let (reason, remedy) = match fit {
        Fit::Right | Fit::Unknown | Fit::Replaced => return None,
        Fit::Other => (
            "the store was made with another secret key",
            "set that one; if it is lost, so are all API keys, webhook secrets and sessions: to go on without them, or \
             if a start with a wrong key came first, set SVC_REPLACE_SECRET_KEY=true for one start",
        ),
        Fit::Undecrypted => (
            "it decrypts none of the store's webhook secrets that were tried, so the store was made with another secret \
             key",
            "set the key that the service had before the upgrade; if this is that one, or if that one is lost, set \
             SVC_REPLACE_SECRET_KEY=true for one start: what was made with another key is lost",
        ),
    };
    Some(Refused::new("SVC_SECRET_KEY", reason).remedy(remedy))
}

impl Keys {
    /// Lets a live key exist after the start.
    pub(crate) fn demonstrate(&mut self, live_key: SecretString) {
        self.bootstrap_live_key = Some(live_key);
    }

    pub(crate) fn secret_key(&self) -> Result<Option<[u8; 32]>, Refused> {
        let decode = |text: &SecretString| decode_secret("SVC_SECRET_KEY", text.expose_secret());
        self.secret_key.as_ref().map(decode).transpose()
    }

    pub(crate) fn log_key(&self) -> Result<Option<[u8; 32]>, Refused> {
        self.log_key.as_ref().map(|text| decode_log_key(text.expose_secret(), "its value")).transpose()
    }

    /// The key that signs the log of a cluster, if it is signed. Witnesses cosign a signed log alone.
    pub(crate) fn cluster_log_key(&self) -> Result<Option<[u8; 32]>, Refused> {
        let key = self.log_key()?;
        if key.is_none() && !self.witnesses.is_empty() {
            let refused = Refused::new("SVC_LOG_KEY", "is not set, but SVC_WITNESSES needs it with SVC_STORE=scylla");
            return Err(refused.remedy("set both, or neither"));
        }
        Ok(key)
    }

    /// The witnesses. Names and keys must be distinct, because a cosignature is assigned to its witness by both.
    pub(crate) fn witnesses(&self) -> Result<Vec<WitnessSettings>, Refused> {
        let refused = |reason: String| {
            Err(Refused::new("SVC_WITNESSES", reason)
                .remedy(format!("name {MAX_WITNESSES} witnesses at most, each once")))
        };
        if self.witnesses.len() > MAX_WITNESSES {
            return refused(format!("{} witnesses are named", self.witnesses.len()));
        }
        for (place, WitnessSettings { key, .. }) in self.witnesses.iter().enumerate() {
            let name = key.name();
            for WitnessSettings { key: before, .. } in &self.witnesses[..place] {
                if before.name() == name {
                    return refused(format!("two witnesses have the name `{name}`"));
                }
                if before.public_key() == key.public_key() {
                    return refused(format!("`{}` and `{name}` have the same key", before.name()));
                }
            }
        }
        Ok(self.witnesses.clone())
    }

    pub(crate) fn service_token(&self) -> Result<Option<SecretString>, Refused> {
        self.service_token.clone().map(|token| judge_token(token, "its value")).transpose()
    }

    pub(crate) fn plans(&self) -> Result<Plans, Refused> {
        match &self.plans_file {
            None => plans::built_in(),
            Some(path) => plans::read(path),
        }
    }

    /// The keys that exist after the start.
    pub(crate) fn bootstrap(&self, plans: &Plans) -> Result<Bootstrap, Refused> {
        let plan = self.plan(plans)?;
        Ok(Bootstrap { test_key: self.test_key()?, live_key: self.live_key()?, plan })
    }

    /// The plan of those keys' organization, if one is set.
    pub(crate) fn plan(&self, plans: &Plans) -> Result<Option<String>, Refused> {
        let plan = self.bootstrap_plan.as_deref().unwrap_or("business");
        if plans.contains_key(plan) {
            return Ok(self.bootstrap_plan.clone());
        }
        let known = plans.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let refused = Refused::new("SVC_BOOTSTRAP_PLAN", format!("`{plan}` is none of the plans: {known}"));
        Err(refused.remedy("set it to one of them"))
    }

    pub(crate) fn test_key(&self) -> Result<Option<SecretString>, Refused> {
        judge_key("SVC_BOOTSTRAP_TEST_KEY", TEST_PREFIX, self.bootstrap_test_key.as_ref())
    }

    pub(crate) fn live_key(&self) -> Result<Option<SecretString>, Refused> {
        judge_key("SVC_BOOTSTRAP_LIVE_KEY", LIVE_PREFIX, self.bootstrap_live_key.as_ref())
    }
}

fn judge_key(setting: &'static str, prefix: &str, key: Option<&SecretString>) -> Result<Option<SecretString>, Refused> {
    match key {
        Some(key) if !(is_api_key(key.expose_secret()) && key.expose_secret().starts_with(prefix)) => {
            Err(Refused::new(setting, "its value has not the form of a key")
                .remedy(format!("set {prefix} and 40 letters or digits, or leave it unset")))
        }
        key => Ok(key.cloned()),
    }
}

/// Demands that a service token has its form. `holder` names the token's place in the error.
pub(crate) fn judge_token(token: SecretString, holder: &str) -> Result<SecretString, Refused> {
    let text = token.expose_secret();
    let length = text.chars().count();
    let wrong = if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        "other characters than printable ASCII without spaces".to_owned()
    } else if length < MIN_TOKEN_LENGTH {
        format!("{length} characters, fewer than {MIN_TOKEN_LENGTH}")
    } else {
        return Ok(token);
    };
    let remedy = "set one such as `openssl rand -base64 32` prints, the same for every process";
    Err(Refused::new("SVC_SERVICE_TOKEN", format!("{holder} has {wrong}")).remedy(remedy))
}

pub(crate) fn decode_secret(setting: &'static str, text: &str) -> Result<[u8; 32], Refused> {
    let bytes = BASE64.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| {
        Refused::new(setting, "its value is not 32 bytes in base64").remedy(
            "set the key that the data was made with; for new data one such as `openssl rand -base64 32` prints",
        )
    })
}

/// Reads the key that signs the log. `holder` names its place in the error.
pub(crate) fn decode_log_key(text: &str, holder: &str) -> Result<[u8; 32], Refused> {
    let bytes = BASE64.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| {
        let remedy = "set one such as `openssl rand -base64 32` prints, the same for every core";
        Refused::new("SVC_LOG_KEY", format!("{holder} is not 32 bytes in base64")).remedy(remedy)
    })
}

pub(crate) fn encode_secret(secret: [u8; 32]) -> String {
    BASE64.encode(secret)
}

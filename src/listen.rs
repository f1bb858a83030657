//! `listen`: follows a stream of events and POSTs each to an endpoint of this machine, signed as a webhook's would be.

mod api;
mod follow;
mod forward;

use std::{
    collections::VecDeque,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use core_service::keys::key_ring::KeyRing;
use delivery_worker::{Signer, standard_key, tls_config};
use reqwest::{Client, ClientBuilder, redirect::Policy, retry};
use secrecy::{ExposeSecret as _, SecretString};
use thesis_net::{
    backoff::Backoff,
    clock::{SharedClock, SharedIdSource, SystemClock, SystemIdSource, random},
};
use url::Url;

use self::{api::Api, follow::Follower, forward::Forwarder};
use crate::{
    Failure,
    config::{self, Settings, api_url, web_url},
    roles::Signals,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// First wait before the stream is opened again, unless the service sends one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait before the stream is opened again.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Name of the keys that sign.
const KEY_NAME: &str = "listen";

/// Forward events to an endpoint of this machine.
#[derive(Debug, Args)]
pub(crate) struct Listen {
    /// API key whose events are forwarded
    #[arg(long, env = "SVC_KEY", hide_env_values = true, value_name = "KEY")]
    key: SecretString,
    /// Where each event is POSTed, such as http://localhost:3000/hook
    #[arg(long, value_name = "URL", value_parser = web_url)]
    forward_to: Url,
    /// Only events of these types, such as thesis.created [default: all]
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',')]
    events: Vec<String>,
    /// Only events of these tokens: $SYMBOL, address, chain:address or id [default: all]
    #[arg(long, value_name = "TOKEN,…", value_delimiter = ',')]
    token: Vec<String>,
    /// Only events of these handles [default: all]
    #[arg(long, value_name = "HANDLE,…", value_delimiter = ',')]
    handle: Vec<String>,
    /// Only events of these chains [default: all]
    #[arg(long, value_name = "CHAIN,…", value_delimiter = ',')]
    chain: Vec<String>,
    /// Only theses with these words, in the syntax of the search; several times for any of several [default: all]
    #[arg(long, value_name = "SEARCH")]
    text: Vec<String>,
    /// Replay past events from this time on (ISO 8601) before new ones
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End after the events of this time
    #[arg(long, value_name = "TIME", requires = "from")]
    to: Option<String>,
    /// Space replayed events by their times divided by this: 0.1 to 3600, or max for no pauses [default: max]
    #[arg(long, value_name = "SPEED", requires = "from")]
    speed: Option<String>,
    /// Address of the API
    #[arg(
        long,
        env = "SVC_API_URL",
        hide_env_values = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:8080",
        value_parser = api_url
    )]
    api: String,
    /// Secret that signs; it is printed first [default: a new one]
    #[arg(long, value_name = "SECRET")]
    secret: Option<SecretString>,
}

/// Forwards events until a signal, a refusal, or the end of a replay.
pub(crate) async fn run(listen: Listen, settings: &Settings) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let clock: SharedClock = Arc::new(SystemClock);
    let ids: SharedIdSource = Arc::new(SystemIdSource);
    let keys = KeyRing::new(&random(ids.as_ref()), Arc::clone(&ids));
    let secret = match &listen.secret {
        Some(secret) => secret.expose_secret().to_owned(),
        None => keys.signing_secret(KEY_NAME),
    };
    let root_certificate = settings.webhooks.root_certificate()?;
    let client = || client(root_certificate.as_deref());
    let lists = [("types", listen.events), ("token", listen.token), ("handle", listen.handle), ("chain", listen.chain)];
    let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
    let lists = lists.map(|(name, values)| (name, values.join(",")));
    let texts = listen.text.into_iter().map(|text| ("text", text));
    let replay = [("from", listen.from), ("to", listen.to), ("speed", listen.speed)];
    let replay = replay.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query = lists.chain(texts).chain(replay);
    let api = Api::new(client()?.build()?, &listen.api, listen.key, query)?;
    // An endpoint under development may close a connection at any time, so each POST has its own.
    let http = client()?.no_proxy().pool_max_idle_per_host(0).build()?;
    say(&secret)?;
    note(&format!("webhook-signature is verified by {} as well", keys.webhook_public_key(KEY_NAME)));
    if standard_key(&secret).is_none() {
        note("webhook-signature has no v1: the secret is not whsec_ and base64");
    }
    let forwarder = Forwarder {
        http,
        to: listen.forward_to,
        secret,
        signing_key: keys.webhook_signing_key(KEY_NAME),
        signer: Signer::default(),
        clock,
        ids: Arc::clone(&ids),
    };
    let mut follower = Follower {
        api,
        forwarder,
        backoff: Backoff::new(FIRST_WAIT, MAX_WAIT),
        ids,
        cursor: None,
        handled: VecDeque::new(),
    };
    tokio::select! {
        ended = follower.follow() => ended,
        () = signals.next() => Ok(()),
    }
}

/// A client of HTTP that trusts this root certificate beside the public ones.
pub(crate) fn client(root_certificate: Option<&[u8]>) -> Result<ClientBuilder, Failure> {
    Ok(Client::builder()
        .user_agent(concat!("trade-thesis/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls_config(root_certificate)?)
        .redirect(Policy::none())
        .retry(retry::never())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .http1_only())
}

/// A line of the output.
fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// A line for people, beside the output.
fn note(text: &str) {
    eprintln!("{}", config::line(text));
}

//! `listen`: follows a stream of events and POSTs each to an endpoint of this machine, signed as a webhook's would be.

mod forward;

use std::sync::Arc;

use clap::Args;
use core_service::keys::key_ring::KeyRing;
use delivery_worker::{Signer, standard_key};
use secrecy::{ExposeSecret as _, SecretString};
use thesis_net::clock::{SharedClock, SharedIdSource, SystemClock, SystemIdSource, random};
use url::Url;

use self::forward::Forwarder;
use crate::{
    Failure,
    account::Account,
    config::{Settings, web_url},
    http,
    roles::Signals,
    stream::{Follower, Replay, StreamClient, Wanted},
    terminal::{note, say},
};

/// Name of the keys that sign.
const KEY_NAME: &str = "listen";

/// Forward events to an endpoint of this machine.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  trade-thesis listen --forward-to http://localhost:3000/hook --token RUN")]
pub(crate) struct Listen {
    #[command(flatten)]
    account: Account,
    /// Where each event is POSTed, such as http://localhost:3000/hook
    #[arg(long, value_name = "URL", value_parser = web_url)]
    forward_to: Url,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    replay: Replay,
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
    let credentials = listen.account.credentials()?;
    let client = || http::client(root_certificate.as_deref());
    let mut query = listen.wanted.query();
    query.extend(listen.replay.query());
    let api = StreamClient::new(client()?.build()?, credentials, &query)?;
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
    let mut follower = Follower::new(api, forwarder, ids, None);
    tokio::select! {
        ended = follower.follow() => ended,
        () = signals.next() => Ok(()),
    }
}

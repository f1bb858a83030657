//! Starts the core on its store.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use core_service::{
    Core, CoreSettings, SearchFolder,
    keys::{
        key_ring::KeyRing,
        secret_check::{self, Fit},
    },
    store::{
        SharedBackend,
        embedded::{self, EmbeddedStore, Options},
        scylla::{ScyllaOptions, ScyllaStore},
    },
};
use secrecy::ExposeSecret as _;
use thesis_net::clock::{SharedClock, SharedIdSource, SystemIdSource};

use crate::{
    Failure,
    config::{Refused, SEARCH_DIR, Settings, StoreKind, other_secret_key, refused_file, refused_index},
    restore,
    secrets::{self, KeptSecret, Secrets},
};

/// Settings that were found usable.
pub(super) struct PreparedCore {
    /// The addresses for others are still empty.
    settings: CoreSettings,
    first_key: Option<KeptSecret>,
    /// None for the embedded store.
    cluster: Option<ScyllaOptions>,
}

/// A core that runs.
pub(super) struct StartedCore {
    pub(super) core: Arc<Core>,
    pub(super) first_key: Option<KeptSecret>,
    /// While there is no administrator, on the embedded store.
    pub(super) set_up: Option<KeptSecret>,
    /// True if the store was created with another secret key, and uses this one from now on.
    is_key_replaced: bool,
}

impl StartedCore {
    /// Logs the permanent changes of the start, once logging has begun.
    pub(super) fn log_changes(&self) {
        if self.is_key_replaced {
            tracing::warn!(
                "SVC_REPLACE_SECRET_KEY: the store goes on with another secret key, and all API keys, webhook secrets \
                 and sessions of the old one are lost; unset it, so that no other start does this"
            );
        }
    }
}

/// Checks the settings, and makes the files of a first start.
pub(super) fn prepare(settings: &Settings) -> Result<PreparedCore, Refused> {
    let features = settings.features.features()?;
    let accounts = settings.accounts.settings(settings.store.kind == StoreKind::Embedded)?;
    let upstream = settings.upstream.settings()?;
    let core_authorities = settings.tls.authorities()?;
    settings.addresses.judge_internal()?;
    settings.addresses.judge_advertised(settings.tls.scheme())?;
    settings.webhooks.resolver()?;
    let plans = settings.keys.plans()?;
    let mut bootstrap = settings.keys.bootstrap(&plans)?;
    let witnesses = settings.keys.witnesses()?;
    let (secrets, first_key, cluster) = match settings.store.kind {
        StoreKind::Scylla => (Secrets::given(&settings.keys)?, None, Some(settings.store.scylla()?)),
        StoreKind::Embedded => {
            let (dir, ids) = (&settings.store.data_dir, Arc::new(SystemIdSource));
            secrets::folder(dir)?;
            restore::demand_finished(dir)?;
            // Before a key is made: a store of an earlier version may have lost its own.
            embedded::exists(dir).map_err(|error| refused_file(dir, &error))?;
            let secrets = Secrets::kept(&settings.keys, dir, ids.as_ref())?;
            let given = bootstrap.test_key.is_some();
            let first_key =
                if given { None } else { secrets::first_key(dir, secrets.secret_key.expose_secret(), ids)? };
            (secrets, first_key, None)
        }
    };
    if let Some(first) = &first_key {
        bootstrap.test_key = Some(first.text.clone());
    }
    let settings = CoreSettings {
        secret_key: secrets.secret_key,
        archive: None,
        log_key: secrets.log_key,
        witnesses,
        service_token: secrets.service_token,
        plans,
        features,
        webhook_allow_networks: settings.webhooks.webhook_allow_networks.clone(),
        dns_servers: settings.webhooks.dns_servers.clone(),
        advertise_url: String::new(),
        core_authorities,
        upstream,
        sandbox_fixtures: settings.features.sandbox_fixtures,
        sandbox_tick_seconds: settings.features.sandbox_tick_seconds,
        // The start locks it.
        search_folder: None,
        accounts,
        bootstrap,
    };
    Ok(PreparedCore { settings, first_key, cluster })
}

/// Opens the store and starts the core on it; `internal` is where its internal services will listen, and `http` where
/// REST does.
pub(super) async fn start(
    settings: &Settings,
    PreparedCore { settings: mut core_settings, first_key, cluster }: PreparedCore,
    internal: SocketAddr,
    http: SocketAddr,
    clock: &SharedClock,
    ids: &SharedIdSource,
) -> Result<StartedCore, Failure> {
    let store: SharedBackend = match cluster {
        Some(options) => {
            let store = ScyllaStore::connect(options, Arc::clone(clock)).await;
            Arc::new(store.map_err(|error| settings.store.refused(&error))?)
        }
        None => {
            let (dir, options) = (&settings.store.data_dir, Options::default());
            let store = EmbeddedStore::open(dir, options, Arc::clone(clock), ids.as_ref());
            Arc::new(store.map_err(|error| refused_file(&settings.store.data_dir, &error))?)
        }
    };
    let keys = KeyRing::new(core_settings.secret_key.expose_secret(), Arc::clone(ids));
    let fit = secret_check::fits(store.as_ref(), &keys, settings.keys.replace_secret_key).await;
    let fit = fit.map_err(|error| settings.store.unstarted(&error))?;
    if let Some(refused) = other_secret_key(fit) {
        return Err(refused.into());
    }
    core_settings.search_folder = Some(search_folder(&settings.store.data_dir)?);
    // After the folder is locked: this makes a folder in it.
    core_settings.archive = settings.store.archive()?;
    let scheme = settings.tls.scheme();
    core_settings.advertise_url = settings.addresses.advertise_url(scheme, internal, &settings.store.scylla_nodes);
    core_settings.accounts.public_url = settings.addresses.public_url(scheme, http);
    let core = Core::start(store, core_settings, Arc::clone(clock), Arc::clone(ids)).await;
    let core = core.map_err(|error| settings.store.unstarted(&error))?;
    let set_up = match settings.store.kind {
        StoreKind::Embedded => secrets::set_up_link(&settings.store.data_dir, core.set_up_link.get())?,
        StoreKind::Scylla => None,
    };
    if set_up.is_some() {
        tokio::spawn(remove_used_link(Arc::clone(&core), settings.store.data_dir.clone()));
    }
    Ok(StartedCore { core, first_key, set_up, is_key_replaced: fit == Fit::Replaced })
}

/// Removes the set-up link, which creates the first administrator, from the data folder once it was used.
async fn remove_used_link(core: Arc<Core>, data_dir: PathBuf) {
    core.until_administrator().await;
    // A core that stops earlier keeps the link for its next start.
    if !core.stop.is_cancelled()
        && let Err(refused) = secrets::set_up_link(&data_dir, None)
    {
        tracing::warn!(%refused, "the used set-up link stays in the data folder");
    }
}

/// The folder of the search index. No other core can use it until this process ends.
fn search_folder(data_dir: &Path) -> Result<SearchFolder, Refused> {
    secrets::folder(data_dir)?;
    let dir = data_dir.join(SEARCH_DIR);
    SearchFolder::lock(&dir).map_err(|error| refused_index(&dir, &error))
}

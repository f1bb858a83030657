//! `--demo-live`: a simulated upstream beside the service, with data that are thrown away at the end, since every
//! simulator begins with a new world.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use secrecy::SecretString;
use tempfile::TempDir;
use thesis_net::clock::{SystemClock, SystemIdSource};
use upstream_sim::{Faults, Options, Simulator};
use url::Url;

use crate::{
    Failure,
    config::{Refused, Settings, StoreKind},
    role::Role,
    secrets::{self, KeptSecret},
};

const FLAG: &str = "--demo-live";
/// The simulated world: numbers of profiles, of tokens, of theses of the last day, and of new ones a second.
const PROFILES: usize = 500;
const TOKENS: usize = 80;
const THESES: usize = 2_000;
const RATE: f64 = 1.0;

pub(crate) struct Demo {
    simulator: Simulator,
    folder: TempDir,
    pub(crate) live_key: KeptSecret,
}

impl Demo {
    /// Starts the simulator and points the settings at it, if the settings request a demonstration.
    pub(crate) async fn start(role: Role, settings: &mut Settings) -> Result<Option<Self>, Failure> {
        if !settings.upstream.demo_live {
            return Ok(None);
        }
        if role != Role::All || settings.store.kind != StoreKind::Embedded {
            let reason = "runs everything in one process on the embedded store";
            return Err(Refused::new(FLAG, reason).remedy("leave out the role and SVC_STORE=scylla").into());
        }
        let refused = |error: std::io::Error| Refused::new(FLAG, error);
        let folder = tempfile::Builder::new().prefix("trade-thesis-demo-").tempdir().map_err(refused)?;
        let ids = Arc::new(SystemIdSource);
        let token: SecretString = secrets::token(ids.as_ref()).into();
        let options = Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: token.clone(),
            seed: 1,
            profiles: PROFILES,
            tokens: TOKENS,
            rate: RATE,
            history: Duration::from_hours(24),
            history_theses: THESES,
            faults: Faults::default(),
        };
        let simulator = Simulator::start(options, Arc::new(SystemClock)).await.map_err(refused)?;
        let url = Url::parse(&format!("http://{}", simulator.address()))?;
        let live_key = secrets::live_key(folder.path(), ids)?;
        settings.upstream.point_at(url, token).map_err(|reason| Refused::new(FLAG, reason))?;
        settings.keys.demonstrate(live_key.text.clone());
        settings.store.data_dir = folder.path().to_owned();
        Ok(Some(Self { simulator, folder, live_key }))
    }

    /// Stops the simulator and throws the data away.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.simulator.stop().await;
        Ok(self.folder.close()?)
    }
}

//! A core on a store in memory, with a clock that the test moves.

mod log_lines;
mod shared_memory;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::poll;
use secrecy::SecretBox;
use thesis_net::{
    clock::{Clock, IdSource},
    tls::Authorities,
};
use tokio::task::yield_now;

use crate::{
    accounts::{AccountSettings, mail::MailSettings},
    domain::{
        dataset::Dataset,
        event_id::EventIdCipher,
        id,
        observation::{ObservedProfile, ObservedThesis, ObservedToken},
        operation::Features,
        plan::{Plan, Plans},
        row::{NewThesis, Profile, Thesis, Token},
    },
    operations::admin::bootstrap::Bootstrap,
    service::Core,
    start::CoreSettings,
    store::{Change, SharedBackend, embedded::EmbeddedStore, schema},
    tables::delivery_rows,
};

pub(crate) use self::{log_lines::LogLines, shared_memory::SharedMemory};

/// Polls of a call before it is dropped; by then it waits for the store.
const POLLS: usize = 20;

/// Noon of 1 June 2026.
pub(crate) const NOON: i64 = 1_780_315_200_000;
/// The bootstrap test key of every test core.
pub(crate) const TEST_KEY: &str = "svc_test_0123456789012345678901234567890123456789";

/// The bootstrap live key of every test core.
pub(crate) const LIVE_KEY: &str = "svc_live_0123456789012345678901234567890123456789";

/// The service credential of every test core.
pub(crate) const SERVICE_TOKEN: &str = "a service token of 32 characters";

/// The secret key of every test core.
const SECRET_KEY: [u8; 32] = [7; 32];

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(NOON)))
    }

    pub(crate) fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Different bytes each time, the same in every run.
#[derive(Debug, Default)]
pub(crate) struct CountingIds(AtomicU64);

impl IdSource for CountingIds {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut mixed = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(mixed ^ (mixed >> 31)).to_be_bytes()[..chunk.len()]);
        }
    }
}

/// A store in memory.
pub(crate) fn memory(clock: &Arc<ManualClock>) -> SharedBackend {
    Arc::new(EmbeddedStore::in_memory(clock.clone()))
}

/// A store in memory that several cores may share.
pub(crate) fn shared_memory(clock: &Arc<ManualClock>) -> SharedBackend {
    SharedMemory::new(clock)
}

/// The settings of a test core: no ticker, nothing on disk.
pub(crate) fn settings() -> CoreSettings {
    let plan = Plan {
        history_days: 7,
        concurrent_streams: 2,
        webhook_endpoints: 3,
        alerts: 3,
        verify_endpoints_days: 0,
        test_theses: 1_000_000,
        requests_per_month: 1_000,
        standard_per_minute: 100_000,
        heavy_per_minute: 60,
        verify_per_minute: 60,
    };
    CoreSettings {
        secret_key: SecretBox::new(Box::new(SECRET_KEY)),
        archive: None,
        log_key: None,
        witnesses: Vec::new(),
        service_token: SERVICE_TOKEN.into(),
        plans: Plans::from([("free".to_owned(), plan), ("business".to_owned(), plan)]),
        features: Features::default(),
        webhook_allow_networks: Vec::new(),
        dns_servers: Vec::new(),
        advertise_url: String::new(),
        core_authorities: Authorities::default(),
        sandbox_fixtures: true,
        sandbox_tick_seconds: 0,
        search_folder: None,
        upstream: None,
        accounts: AccountSettings { public_url: "http://localhost".to_owned(), ..AccountSettings::default() },
        bootstrap: Bootstrap { test_key: Some(TEST_KEY.into()), live_key: Some(LIVE_KEY.into()), plan: None },
    }
}

/// A thesis of a dataset; three authors and two tokens take turns.
pub(crate) fn new_thesis(dataset: &Dataset, number: u32) -> NewThesis {
    let name = dataset.to_string();
    let (profile, token) = (format!("p{}", number % 3), format!("t{}", number % 2));
    let profile =
        Profile { id: id::derive("fp_", &[&name, &profile]), handle: format!("@{profile}"), ..Profile::default() };
    let token = Token {
        id: id::derive("tk_", &[&name, &token]),
        symbol: format!("${}", token.to_uppercase()),
        chain: "sandbox".to_owned(),
        address: token,
        ..Token::default()
    };
    let thesis = Thesis {
        id: id::derive("th_", &[&name, &number.to_string()]),
        profile_id: profile.id.clone(),
        token_id: token.id.clone(),
        chain: token.chain.clone(),
        text: format!("thesis {number}"),
        created_at: i64::from(number),
        ..Thesis::default()
    };
    NewThesis { thesis, profile, token, test: true, at: None, trace: Vec::new(), max_theses: None }
}

/// Ids of one replica, different from those of others.
pub(crate) fn ids(replica: u64) -> Arc<CountingIds> {
    Arc::new(CountingIds(AtomicU64::new(replica << 40)))
}

/// Makes and reads event ids where no core has a key for them.
pub(crate) fn event_id_cipher() -> EventIdCipher {
    EventIdCipher::new([3; 32], "")
}

/// Starts a core without a ticker. `replica` keeps the ids of several cores apart.
pub(crate) async fn core(backend: SharedBackend, clock: &Arc<ManualClock>, replica: u64) -> Arc<Core> {
    let started = Core::start(backend, settings(), clock.clone(), ids(replica)).await;
    started.expect("a core on a store in memory starts")
}

/// Starts a core that mails to a server that is not there.
pub(crate) async fn core_with_mail(backend: SharedBackend, clock: &Arc<ManualClock>) -> Arc<Core> {
    let mail = MailSettings::new("smtp://127.0.0.1:9".into(), "noreply@thesis.example".to_owned());
    let mut settings = settings();
    settings.accounts.mail = Some(mail.expect("these settings are whole"));
    let started = Core::start(backend, settings, clock.clone(), ids(1)).await;
    started.expect("a core on a store in memory starts")
}

/// Starts a call while the store is paused, and drops it.
pub(crate) async fn give_up(call: impl Future) {
    let mut call = pin!(call);
    for _ in 0..POLLS {
        assert!(poll!(&mut call).is_pending(), "the store stands still");
        yield_now().await;
    }
}

/// Writes the row of a delivery so that nobody can read it.
pub(crate) async fn damage_delivery(backend: &SharedBackend, id: &str) {
    let (key, body) = (delivery_rows::key_of(id), Some(Bytes::from_static(b"\xff")));
    let damaged = Change { table: &schema::DELIVERY, key, version: i64::MAX, body, ttl: None };
    backend.apply(vec![damaged]).await.expect("a store in memory takes every row");
}

/// A thesis of one author about one token, as the upstream shows it.
pub(crate) fn observed_thesis(upstream_id: &str, text: &str) -> ObservedThesis {
    ObservedThesis {
        upstream_id: upstream_id.to_owned(),
        profile: ObservedProfile {
            upstream_id: "u".to_owned(),
            handle: "writer".to_owned(),
            ..ObservedProfile::default()
        },
        token: ObservedToken {
            chain: "base".to_owned(),
            address: "0xa".to_owned(),
            symbol: "RUN".to_owned(),
            ..ObservedToken::default()
        },
        text: text.to_owned(),
        created_at: 1_000,
        updated_at: 1_000,
        ..ObservedThesis::default()
    }
}

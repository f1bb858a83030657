//! A core on a store in memory, with a clock that the test moves.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use futures::poll;
use parking_lot::Mutex;
use secrecy::SecretBox;
use thesis_net::{
    clock::{Clock, IdSource},
    tls::Authorities,
};
use tokio::{
    sync::{OwnedRwLockWriteGuard, RwLock},
    task::yield_now,
};

use crate::{
    accounts::{AccountSettings, mail::MailSettings},
    domain::{
        dataset::Dataset,
        event_id::EventIdCipher,
        id,
        operation::Features,
        plan::{Plan, Plans},
        row::{NewThesis, Profile, Thesis, Token},
    },
    operations::admin::bootstrap::Bootstrap,
    service::Core,
    start::CoreSettings,
    store::{
        Backend, Change, Consistency, Row, Scan, SharedBackend, StoreError, StoreResult, Table, Transaction, Value,
        embedded::EmbeddedStore,
    },
};

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

/// A store in memory that reports other writers, so that several cores may share it.
pub(crate) struct SharedMemory {
    store: SharedBackend,
    away: AtomicBool,
    /// A lock that every call takes; a test that holds it makes calls wait.
    passage: Arc<RwLock<()>>,
    /// The partitions whose transactions, changes and reads fail.
    refused: Mutex<Option<Value>>,
    unchangeable: Mutex<Option<Vec<Value>>>,
    unreadable: Mutex<Option<Value>>,
    /// Calls made, by table.
    calls: Mutex<HashMap<&'static str, usize>>,
    /// Changes applied, by table.
    applied: Mutex<HashMap<&'static str, usize>>,
    /// Scans, by table.
    scans: Mutex<HashMap<&'static str, usize>>,
    /// Requests that a cluster would get, by table.
    requests: Mutex<HashMap<&'static str, usize>>,
}

impl SharedMemory {
    pub(crate) fn new(clock: &Arc<ManualClock>) -> Arc<Self> {
        Self::on(memory(clock))
    }

    /// A second connection to this store, for another core. It has its own failures and counts.
    pub(crate) fn beside(&self) -> Arc<Self> {
        Self::on(Arc::clone(&self.store))
    }

    fn on(store: SharedBackend) -> Arc<Self> {
        let (away, calls) = (AtomicBool::new(false), Mutex::default());
        let (refused, unchangeable, unreadable) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (applied, scans, requests) = (Mutex::default(), Mutex::default(), Mutex::default());
        let passage = Arc::default();
        Arc::new(Self { store, away, passage, refused, unchangeable, unreadable, calls, applied, scans, requests })
    }

    /// Makes every call wait until the guard is dropped. Calls that are worked on end first.
    pub(crate) async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.passage).write_owned().await
    }

    /// Returns the number of calls that read or write a table.
    pub(crate) fn calls(&self, table: &Table) -> usize {
        self.calls.lock().get(table.name).copied().unwrap_or_default()
    }

    /// Returns the number of requests for a table that a cluster would get: one for each partition of a write, and for
    /// each row of a read of several.
    pub(crate) fn requests(&self, table: &Table) -> usize {
        self.requests.lock().get(table.name).copied().unwrap_or_default()
    }

    /// Returns the number of requests for all tables.
    pub(crate) fn all_requests(&self) -> usize {
        self.requests.lock().values().sum()
    }

    fn called(&self, table: &Table, requests: usize) {
        *self.calls.lock().entry(table.name).or_default() += 1;
        *self.requests.lock().entry(table.name).or_default() += requests;
    }

    /// Returns the number of scans of a table.
    pub(crate) fn scans(&self, table: &Table) -> usize {
        self.scans.lock().get(table.name).copied().unwrap_or_default()
    }

    /// Returns the number of applied changes of a table.
    pub(crate) fn applied(&self, table: &Table) -> usize {
        self.applied.lock().get(table.name).copied().unwrap_or_default()
    }

    /// Makes every call fail, or work again.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// Makes the transactions on a partition fail; none fail with none.
    pub(crate) fn refuse(&self, partition: Option<String>) {
        *self.refused.lock() = partition.map(Value::from);
    }

    /// Makes the changes of rows fail whose keys begin like this; none fail with none.
    pub(crate) fn refuse_changes(&self, key: Option<&[Value]>) {
        *self.unchangeable.lock() = key.map(<[Value]>::to_vec);
    }

    /// Makes the reads of a partition fail; none fail with none.
    pub(crate) fn refuse_reads(&self, partition: Option<&str>) {
        *self.unreadable.lock() = partition.map(Value::from);
    }

    /// The store, for a read of a row with this key or of this partition.
    fn store_of(&self, key: &[Value]) -> StoreResult<&SharedBackend> {
        if self.unreadable.lock().as_ref().is_some_and(|unreadable| key.first() == Some(unreadable)) {
            return Err(StoreError::Unavailable("unreadable".to_owned()));
        }
        self.store()
    }

    fn store(&self) -> StoreResult<&SharedBackend> {
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(&self.store)
    }
}

#[async_trait]
impl Backend for SharedMemory {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        let _passing = self.passage.read().await;
        self.called(table, 1);
        self.store_of(key)?.get(table, key, consistency).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        let _passing = self.passage.read().await;
        self.called(table, keys.len());
        for key in keys {
            self.store_of(key)?;
        }
        self.store()?.get_many(table, keys).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        let _passing = self.passage.read().await;
        self.called(scan.table, 1);
        *self.scans.lock().entry(scan.table.name).or_default() += 1;
        self.store_of(&scan.partition)?.scan(scan).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        let _passing = self.passage.read().await;
        let mut partitions: HashMap<&'static str, HashSet<&[Value]>> = HashMap::new();
        for change in &changes {
            *self.applied.lock().entry(change.table.name).or_default() += 1;
            partitions.entry(change.table.name).or_default().insert(&change.key[..change.table.partition.len()]);
        }
        for (table, partitions) in partitions {
            *self.calls.lock().entry(table).or_default() += 1;
            *self.requests.lock().entry(table).or_default() += partitions.len();
        }
        let unchangeable = self.unchangeable.lock().clone();
        if unchangeable.is_some_and(|key| changes.iter().any(|change| change.key.starts_with(&key))) {
            return Err(StoreError::Unavailable("unchangeable".to_owned()));
        }
        self.store()?.apply(changes).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        let _passing = self.passage.read().await;
        self.called(transaction.table, 1);
        if self.refused.lock().as_ref().is_some_and(|refused| transaction.partition.first() == Some(refused)) {
            return Err(StoreError::Unavailable("refused".to_owned()));
        }
        self.store()?.transact(transaction).await
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    async fn sync(&self) -> StoreResult<()> {
        self.store()?.sync().await
    }

    async fn check(&self) -> StoreResult<()> {
        self.store()?.check().await
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        self.store()?.sweep(now_ms).await
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
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
        test_theses: 1_000_000,
        requests_per_month: 1_000,
        standard_per_minute: 100_000,
        heavy_per_minute: 60,
        verify_per_minute: 60,
    };
    CoreSettings {
        secret_key: SecretBox::new(Box::new(SECRET_KEY)),
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

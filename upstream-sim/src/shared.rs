//! The state that all requests share: the world, the feed's log, the faults and the counters.

use std::sync::{Arc, atomic::AtomicU64};

use parking_lot::{Mutex, MutexGuard};
use secrecy::SecretString;
use thesis_net::clock::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Faults, Options,
    dice::Dice,
    feed::Log,
    publisher::Publisher,
    world::{FeedEvent, InitialWorld, Publish, World},
};

/// Number of kinds of lookups.
pub(crate) const LOOKUPS: usize = 7;

/// The shared state, as handlers hold it.
pub(crate) type Sim = Arc<Shared>;

/// The world, and the publisher of its changes.
struct Stage {
    world: World,
    publisher: Publisher,
}

/// The counters of requests.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) lookups: [AtomicU64; LOOKUPS],
    /// Lookups that got a fault.
    pub(crate) refused_lookups: AtomicU64,
    /// Connections to the feed now.
    pub(crate) feed_connections: AtomicU64,
    /// Connections to the feed ever.
    pub(crate) feed_opened: AtomicU64,
}

/// The state that all requests share. Lock order: `stage`, then `log`, then any other lock.
pub(crate) struct Shared {
    pub(crate) token: SecretString,
    pub(crate) seed: u64,
    pub(crate) clock: SharedClock,
    pub(crate) counters: Counters,
    /// Cancelled at the end.
    pub(crate) stop: CancellationToken,
    stage: Mutex<Stage>,
    log: Mutex<Log>,
    faults: Mutex<Faults>,
    rate: Mutex<f64>,
    /// Decides about the faults of lookups.
    lookup_dice: Mutex<Dice>,
    /// Notifies readers of the feed of new frames, or of changed faults.
    notifications: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn new(options: &Options, clock: SharedClock, stop: CancellationToken) -> Self {
        let (seed, now) = (options.seed, clock.now_ms());
        let beginning = InitialWorld {
            seed,
            profiles: options.profiles,
            tokens: options.tokens,
            theses: options.history_theses,
            history_ms: i64::try_from(options.history.as_millis()).unwrap_or(now).min(now),
        };
        Self {
            token: options.token.clone(),
            seed,
            counters: Counters::default(),
            stop,
            stage: Mutex::new(Stage { world: World::new(beginning, now), publisher: Publisher::new(seed) }),
            log: Mutex::new(Log::new(seed, now)),
            faults: Mutex::new(options.faults),
            rate: Mutex::new(options.rate),
            lookup_dice: Mutex::new(Dice::part(seed, 2)),
            notifications: watch::Sender::new(()),
            clock,
        }
    }

    /// Changes the world at the present time. The log holds the change's events when this returns, unless the change
    /// is `quiet`.
    pub(crate) fn change<T>(&self, quiet: bool, change: impl FnOnce(&mut World, i64, Publish<'_>) -> T) -> T {
        let faults = self.faults();
        let mut stage = self.stage.lock();
        // Read under the lock, so that times grow with the log.
        let now = self.clock.now_ms();
        let Stage { world, publisher } = &mut *stage;
        let mut log = self.log.lock();
        let log = &mut *log;
        let outcome = change(world, now, &mut |world: &World, event: FeedEvent| {
            if !quiet {
                publisher.publish(log, &faults, world, event, now);
            }
        });
        self.notifications.send_replace(());
        outcome
    }

    /// Publishes the delayed frames that are due.
    pub(crate) fn release(&self) {
        let mut stage = self.stage.lock();
        if stage.publisher.holds() {
            stage.publisher.release(&mut self.log.lock(), self.clock.now_ms(), 0);
            self.notifications.send_replace(());
        }
    }

    /// Publishes a frame without a change in the world, and returns its position.
    pub(crate) fn publish_raw(&self, event: &str, data: &[u8]) -> String {
        let mut log = self.log();
        log.append(event, data, self.clock.now_ms());
        self.notifications.send_replace(());
        log.position(log.newest())
    }

    /// Reads the world.
    pub(crate) fn read_world<T>(&self, read: impl FnOnce(&World) -> T) -> T {
        read(&self.stage.lock().world)
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    pub(crate) fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        *self.faults.lock() = faults;
        self.notifications.send_replace(());
    }

    /// New theses a second.
    pub(crate) fn rate(&self) -> f64 {
        *self.rate.lock()
    }

    pub(crate) fn set_rate(&self, rate: f64) {
        *self.rate.lock() = rate;
    }

    /// Decides if a lookup is refused, and if its response is cut.
    pub(crate) fn fate_of_lookup(&self, faults: &Faults) -> (bool, bool) {
        let mut dice = self.lookup_dice.lock();
        (dice.chance(faults.error_share), dice.chance(faults.cut_share))
    }

    /// Receives a notification for each publication.
    pub(crate) fn notifications(&self) -> watch::Receiver<()> {
        self.notifications.subscribe()
    }
}

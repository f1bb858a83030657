//! What all requests share: the world, the feed's log, the faults, and what was counted.

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
    look_ups::LOOKUPS,
    teller::Teller,
    world::{Beginning, Tell, Told, World},
};

/// What all requests share.
pub(crate) type Sim = Arc<Shared>;

/// The world, and who tells the feed of it.
struct Stage {
    world: World,
    teller: Teller,
}

/// What was counted.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) look_ups: [AtomicU64; LOOKUPS],
    /// Look-ups that were answered with a fault.
    pub(crate) refused_look_ups: AtomicU64,
    /// Connections to the feed now.
    pub(crate) feed_connections: AtomicU64,
    /// Connections to the feed ever.
    pub(crate) feed_opened: AtomicU64,
}

/// What all requests share. Whoever takes several locks takes `stage` first, then `log`, then another one.
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
    /// Decides about the faults of look-ups.
    lookup_dice: Mutex<Dice>,
    /// Tells readers of the feed that there are frames, or other faults.
    news: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn new(options: &Options, clock: SharedClock, stop: CancellationToken) -> Self {
        let (seed, now) = (options.seed, clock.now_ms());
        let beginning = Beginning {
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
            stage: Mutex::new(Stage { world: World::new(beginning, now), teller: Teller::new(seed) }),
            log: Mutex::new(Log::new(seed, now)),
            faults: Mutex::new(options.faults),
            rate: Mutex::new(options.rate),
            lookup_dice: Mutex::new(Dice::part(seed, 2)),
            news: watch::Sender::new(()),
            clock,
        }
    }

    /// Changes the world at the present time. What the change tells is in the log when this returns.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World, i64, Tell<'_>) -> T) -> T {
        let faults = self.faults();
        let mut stage = self.stage.lock();
        // Read under the lock, so that times grow with the log.
        let now = self.clock.now_ms();
        let Stage { world, teller } = &mut *stage;
        let mut log = self.log.lock();
        let log = &mut *log;
        let outcome = change(world, now, &mut |world: &World, told: Told| teller.tell(log, &faults, world, told, now));
        self.news.send_replace(());
        outcome
    }

    /// Tells what waited long enough.
    pub(crate) fn release(&self) {
        let mut stage = self.stage.lock();
        if stage.teller.holds() {
            stage.teller.release(&mut self.log.lock(), self.clock.now_ms(), 0);
            self.news.send_replace(());
        }
    }

    /// Tells a frame that nothing in the world stands behind, and gives its position.
    pub(crate) fn tell_raw(&self, event: &str, data: &[u8]) -> String {
        let mut log = self.log();
        log.append(event, data, self.clock.now_ms());
        self.news.send_replace(());
        log.position(log.newest())
    }

    /// Looks at the world.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.stage.lock().world)
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    pub(crate) fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        *self.faults.lock() = faults;
        self.news.send_replace(());
    }

    /// New theses a second.
    pub(crate) fn rate(&self) -> f64 {
        *self.rate.lock()
    }

    pub(crate) fn set_rate(&self, rate: f64) {
        *self.rate.lock() = rate;
    }

    /// Whether a look-up is refused, and whether its answer is cut.
    pub(crate) fn fate_of_lookup(&self, faults: &Faults) -> (bool, bool) {
        let mut dice = self.lookup_dice.lock();
        (dice.chance(faults.error_share), dice.chance(faults.cut_share))
    }

    /// Wakes up whenever something is told.
    pub(crate) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }
}

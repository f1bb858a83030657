//! All connections of a server. Idle and slow ones are closed when there is no room for more.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{counted::count_closed, meter::Meter};

/// The fraction (1/n) of idle connections that are closed together, at least one.
const IDLE_FRACTION: usize = 64;
/// Time within which a peer reads all bytes that wait for it; a slow connection needs longer.
pub(super) const SLOW_TIME: Duration = Duration::from_secs(1);
/// Minimum time between two scans for slow connections.
const SLOW_SCAN_INTERVAL: Duration = Duration::from_millis(50);
/// Slow connections are closed until this fraction (1/n) of the room is free.
const FREED_FRACTION: usize = 16;

/// All connections of a server, and the room for their unread responses.
#[derive(Debug)]
pub(super) struct Connections {
    /// The server's name in metrics.
    pub(super) name: &'static str,
    meters: Mutex<Vec<Weak<Meter>>>,
    room: Arc<Semaphore>,
    size: usize,
    /// Time of the last scan for slow connections.
    scanned_at: Mutex<Option<Instant>>,
}

impl Connections {
    /// A server without connections, and room for this many bytes.
    pub(super) fn new(name: &'static str, untaken: usize) -> Arc<Self> {
        let size = untaken.min(Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(size));
        Arc::new(Self { name, meters: Mutex::default(), room, size, scanned_at: Mutex::default() })
    }

    /// The number of open connections, and of unread bytes of responses.
    pub(super) fn open_and_untaken(&self) -> (usize, usize) {
        let open = self.meters.lock().iter().filter(|meter| meter.strong_count() > 0).count();
        (open, self.size - self.room.available_permits())
    }

    pub(super) fn add(&self, may_give_up: u32, open: usize) -> Arc<Meter> {
        let meter = Arc::new(Meter::new(may_give_up));
        let mut meters = self.meters.lock();
        if meters.len() > 2 * open + IDLE_FRACTION {
            meters.retain(|meter| meter.strong_count() > 0);
        }
        meters.push(Arc::downgrade(&meter));
        meter
    }

    /// Closes the longest idle connections; returns true if any was idle.
    pub(super) fn close_idle(&self) -> bool {
        let idle = |meter: &Weak<Meter>| meter.upgrade().and_then(|meter| Some((meter.idle_since()?, meter)));
        let mut idle: Vec<_> = self.meters.lock().iter().filter_map(idle).collect();
        if idle.is_empty() {
            return false;
        }
        let share = idle.len() / IDLE_FRACTION;
        idle.select_nth_unstable_by_key(share, |(since, _)| *since);
        count_closed(self.name, "idle", share + 1);
        for (_, meter) in &idle[..=share] {
            meter.close();
        }
        true
    }

    /// Takes room for bytes of a response. If there is none, slow connections are closed.
    pub(super) fn hold(&self, meter: &Arc<Meter>, bytes: usize) -> Option<Room> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(&self.room).try_acquire_many_owned(permits) else {
            self.close_slow();
            return None;
        };
        meter.holds(bytes);
        Some(Room { meter: Arc::clone(meter), bytes, _permit: permit })
    }

    /// Closes slow connections, those with the most waiting bytes first.
    fn close_slow(&self) {
        let now = Instant::now();
        let mut scanned_at = self.scanned_at.lock();
        if scanned_at.is_some_and(|last| now - last < SLOW_SCAN_INTERVAL) {
            return;
        }
        *scanned_at = Some(now);
        drop(scanned_at);
        let slow = |meter: &Weak<Meter>| {
            let meter = meter.upgrade()?;
            Some((meter.held_longer_than(SLOW_TIME)?, meter))
        };
        let mut slow: Vec<_> = self.meters.lock().iter().filter_map(slow).collect();
        slow.sort_unstable_by_key(|(held, _)| std::cmp::Reverse(*held));
        let mut freed = 0;
        for (held, meter) in slow {
            if freed >= self.size / FREED_FRACTION {
                break;
            }
            meter.close();
            count_closed(self.name, "slow", 1);
            freed += held;
        }
    }
}

/// Room that bytes of a response take until they are written.
#[derive(Debug)]
pub struct Room {
    meter: Arc<Meter>,
    bytes: usize,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.meter.took(self.bytes);
    }
}

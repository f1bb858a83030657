//! All connections of a server, and which of them give way when there is no room for more.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::meter::Meter;

/// Of those that may give way, this share does at once.
const GIVE_WAY: usize = 64;
/// Who takes longer than this for as much as waits to be taken is slow.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// They are not looked for more often than this.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The slow give way until this share of the room is free.
const FREED: usize = 16;

/// All connections of a server, and the room for answers that they have not yet taken.
#[derive(Debug)]
pub(super) struct Connections {
    meters: Mutex<Vec<Weak<Meter>>>,
    room: Arc<Semaphore>,
    size: usize,
    /// When the slow were last looked for.
    looked: Mutex<Option<Instant>>,
}

impl Connections {
    /// None yet, and room for so many bytes.
    pub(super) fn new(untaken: usize) -> Arc<Self> {
        let size = untaken.min(Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(size));
        Arc::new(Self { meters: Mutex::default(), room, size, looked: Mutex::default() })
    }

    /// Adds a connection.
    pub(super) fn add(self: &Arc<Self>, may_give_up: u32, open: usize) -> Arc<Meter> {
        let meter = Arc::new(Meter::new(may_give_up, Arc::clone(self)));
        let mut meters = self.meters.lock();
        if meters.len() > 2 * open + GIVE_WAY {
            meters.retain(|meter| meter.strong_count() > 0);
        }
        meters.push(Arc::downgrade(&meter));
        meter
    }

    /// Closes connections that have been idle longest; tells whether there were any.
    pub(super) fn close_idle(&self) -> bool {
        let idle = |meter: &Weak<Meter>| meter.upgrade().and_then(|meter| Some((meter.idle_since()?, meter)));
        let mut idle: Vec<_> = self.meters.lock().iter().filter_map(idle).collect();
        if idle.is_empty() {
            return false;
        }
        let share = idle.len() / GIVE_WAY;
        idle.select_nth_unstable_by_key(share, |(since, _)| *since);
        for (_, meter) in &idle[..=share] {
            meter.close();
        }
        true
    }

    /// Takes room for bytes of an answer. If there is none the slowest give way, which makes some for others.
    pub(super) fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.room).try_acquire_many_owned(permits).ok();
        if taken.is_none() {
            self.close_slow();
        }
        taken
    }

    /// Closes the slow connections that have let most wait.
    fn close_slow(&self) {
        let now = Instant::now();
        let mut looked = self.looked.lock();
        if looked.is_some_and(|last| now - last < LOOK_AGAIN) {
            return;
        }
        *looked = Some(now);
        drop(looked);
        let slow = |meter: &Weak<Meter>| {
            let meter = meter.upgrade()?;
            Some((meter.held_longer_than(SLOW)?, meter))
        };
        let mut slow: Vec<_> = self.meters.lock().iter().filter_map(slow).collect();
        slow.sort_unstable_by_key(|(held, _)| std::cmp::Reverse(*held));
        let mut freed = 0;
        for (held, meter) in slow {
            if freed >= self.size / FREED {
                break;
            }
            meter.close();
            freed += held;
        }
    }
}

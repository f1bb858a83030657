//! One connection to the feed. It takes frames from the log when the client takes bytes, so that a slow client waits
//! and nothing is queued for it.

use std::{io, sync::Arc, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{dice::Dice, shared::Sim};

/// Bytes after which a piece is sent.
const MAX_PIECE_BYTES: usize = 64 * 1024;
/// Maximum silence of a feed without the `silent` fault.
const COMMENT_INTERVAL: Duration = Duration::from_secs(5);
/// Time for the last piece to leave before the connection breaks.
const LAST_PIECE: Duration = Duration::from_millis(20);

/// A reader of the log.
pub(super) struct Reader {
    sim: Sim,
    /// Number of the last frame that it read.
    behind: u64,
    /// The `open` frame, until it is sent.
    first: Option<Bytes>,
    notifications: watch::Receiver<()>,
    dice: Dice,
    /// The connection breaks next.
    breaks: bool,
}

impl Reader {
    pub(super) fn new(sim: Sim, behind: u64, first: Bytes) -> Self {
        let number = sim.counters.feed_opened.fetch_add(1, Ordering::Relaxed);
        sim.counters.feed_connections.fetch_add(1, Ordering::Relaxed);
        let (notifications, dice) = (sim.notifications(), Dice::part(sim.seed, number + 1_000));
        Self { sim, behind, first: Some(first), notifications, dice, breaks: false }
    }

    /// The next piece; `None` at the end.
    pub(super) async fn piece(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        if self.breaks {
            sleep(LAST_PIECE).await;
            return Some((Err(io::ErrorKind::ConnectionAborted.into()), self));
        }
        let stop = self.sim.stop.clone();
        let piece = stop.run_until_cancelled(self.next()).await??;
        Some((Ok(piece), self))
    }

    /// Waits for frames, or for the time of a comment. `None` when the reader is too far behind.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Marked before the read, so that no concurrent notification is missed.
            self.notifications.mark_unchanged();
            if self.sim.faults().silent {
                self.notifications.changed().await.ok()?;
                continue;
            }
            let piece = self.take()?;
            if !piece.is_empty() {
                return Some(piece.into());
            }
            match timeout(COMMENT_INTERVAL, self.notifications.changed()).await {
                Ok(changed) => changed.ok()?,
                Err(_) if self.sim.faults().silent => {}
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }

    /// Unread frames, up to one piece.
    fn take(&mut self) -> Option<Vec<u8>> {
        let share = self.sim.faults().disconnect_share;
        let sim = Arc::clone(&self.sim);
        let log = sim.log();
        let mut piece = Vec::new();
        for frame in log.behind(self.behind)? {
            piece.extend_from_slice(frame);
            self.behind += 1;
            self.breaks = self.dice.chance(share);
            if self.breaks || piece.len() >= MAX_PIECE_BYTES {
                break;
            }
        }
        Some(piece)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.sim.counters.feed_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

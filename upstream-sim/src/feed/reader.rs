//! One connection to the feed. It takes frames from the log when the client takes bytes, so that a slow client waits and
//! nothing is queued for it.

use std::{io, sync::Arc, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{dice::Dice, shared::Sim};

/// Bytes after which a piece is sent.
const PIECE: usize = 64 * 1024;
/// Longest silence of a feed that is not silent.
const SILENCE: Duration = Duration::from_secs(5);
/// Time for the last piece to leave before the connection breaks.
const LAST_PIECE: Duration = Duration::from_millis(20);

/// A place in the log.
pub(super) struct Reader {
    sim: Sim,
    /// Number of the frame behind which it goes on.
    behind: u64,
    /// The `open` frame, until it is sent.
    first: Option<Bytes>,
    news: watch::Receiver<()>,
    dice: Dice,
    /// The connection breaks next.
    breaks: bool,
}

impl Reader {
    pub(super) fn new(sim: Sim, behind: u64, first: Bytes) -> Self {
        let number = sim.counters.feed_opened.fetch_add(1, Ordering::Relaxed);
        sim.counters.feed_connections.fetch_add(1, Ordering::Relaxed);
        let (news, dice) = (sim.news(), Dice::part(sim.seed, number + 1_000));
        Self { sim, behind, first: Some(first), news, dice, breaks: false }
    }

    /// The next piece; none at the end.
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

    /// Waits for frames, or for the time of a comment. None when the reader is too far behind.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Before it looks, so that nothing that comes meanwhile is missed.
            self.news.mark_unchanged();
            if self.sim.faults().silent {
                self.news.changed().await.ok()?;
                continue;
            }
            let piece = self.take()?;
            if !piece.is_empty() {
                return Some(piece.into());
            }
            match timeout(SILENCE, self.news.changed()).await {
                Ok(changed) => changed.ok()?,
                Err(_) if self.sim.faults().silent => {}
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }

    /// Frames that wait, up to a piece.
    fn take(&mut self) -> Option<Vec<u8>> {
        let share = self.sim.faults().disconnect_share;
        let sim = Arc::clone(&self.sim);
        let log = sim.log();
        let mut piece = Vec::new();
        for frame in log.behind(self.behind)? {
            piece.extend_from_slice(frame);
            self.behind += 1;
            self.breaks = self.dice.chance(share);
            if self.breaks || piece.len() >= PIECE {
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

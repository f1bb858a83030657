//! Bodies of requests, read whole within bounds.

use std::{fmt::Debug, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

/// Timeout for a whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Age from which an unfinished body is dropped when there is no room for others.
const DROP_AGE: Duration = Duration::from_secs(1);

/// The reason why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each has its text")]
pub enum BodyError {
    #[error("the body is too large")]
    TooLarge,
    #[error("the body broke off")]
    Broken,
    #[error("the body did not arrive in time")]
    Late,
    #[error("there is no room for the body")]
    NoRoom,
}

/// The room for the bodies of all connections together. A body takes room only for its bytes that have arrived, so one
/// that drips takes little. When no room is left, bodies that have been arriving for longer than a second give way.
#[derive(Clone, Debug)]
pub struct Bodies {
    room: Arc<Semaphore>,
    crowded: Arc<Notify>,
}

impl Bodies {
    /// Room for this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(bytes)), crowded: Arc::default() }
    }

    /// Reads a whole body of at most `limit` bytes. Up to `taken` bytes of a larger one are read too, so that its
    /// sender can read the response.
    ///
    /// # Errors
    /// Fails when the body is too large, late or broken, or there is no room for it.
    pub async fn read<B>(&self, mut body: B, limit: usize, taken: usize) -> Result<Bytes, BodyError>
    where
        B: Body<Data = Bytes, Error: Debug> + Unpin,
    {
        if body.size_hint().lower() > taken as u64 {
            return Err(BodyError::TooLarge);
        }
        let mut received = BodyBytes { bytes: Vec::new(), room: None };
        let reading = async {
            let mut length = 0;
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
                length += data.len();
                if length > taken {
                    break;
                }
                if length <= limit {
                    received.add(&data, &self.room).inspect_err(|_| self.crowded.notify_waiters())?;
                }
            }
            if length > limit { Err(BodyError::TooLarge) } else { Ok(()) }
        };
        tokio::select! {
            biased;
            read = timeout(BODY_TIMEOUT, reading) => read.unwrap_or(Err(BodyError::Late))?,
            () = self.until_dropped() => return Err(BodyError::NoRoom),
        }
        Ok(Bytes::from_owner(received))
    }

    /// Waits until a body that begins to arrive now must be dropped.
    async fn until_dropped(&self) {
        let began = Instant::now();
        loop {
            self.crowded.notified().await;
            if began.elapsed() > DROP_AGE {
                return;
            }
        }
    }
}

/// The received bytes of a body, and the room that they take.
struct BodyBytes {
    bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl BodyBytes {
    fn add(&mut self, data: &[u8], room: &Arc<Semaphore>) -> Result<(), BodyError> {
        let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let more = Arc::clone(room).try_acquire_many_owned(size).map_err(|_| BodyError::NoRoom)?;
        match &mut self.room {
            Some(room) => room.merge(more),
            None => self.room = Some(more),
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl AsRef<[u8]> for BodyBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

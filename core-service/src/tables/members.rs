//! Signs of life of the cores.

use bytes::Bytes;

use crate::{
    key,
    store::{Change, Scan, SharedBackend, StoreResult, schema},
};

/// Seconds that the last beat of a core is kept.
pub const BEAT_KEPT: u32 = 24 * 3_600;
/// The body of a core's last beat.
const GONE: &[u8] = b"gone";
/// Most cores that beat within [`BEAT_KEPT`].
const MOST_CORES: usize = 100_000;

/// The thing that a core shows to be doing by its beats.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// It lives.
    Core,
    /// Workers are connected to it.
    Delivery,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Delivery => "delivery",
        }
    }
}

/// The newest beat of a core.
#[derive(Debug)]
pub struct Beat {
    /// The core.
    pub replica: String,
    /// Its number of beats.
    pub number: i64,
    /// Whether it was the last one.
    pub gone: bool,
}

/// Writes this core's beat.
///
/// # Errors
/// When the store does not answer.
pub async fn write_beat(backend: &SharedBackend, service: Service, beat: Beat) -> StoreResult<()> {
    let key = key![service.name(), beat.replica];
    let body = Some(Bytes::from_static(if beat.gone { GONE } else { b"" }));
    let change = Change { table: &schema::REPLICA_BEAT, key, version: beat.number, body, ttl: Some(BEAT_KEPT) };
    backend.apply(vec![change]).await
}

/// The beats of every core.
///
/// # Errors
/// When the store does not answer.
pub async fn beats(backend: &SharedBackend, service: Service) -> StoreResult<Vec<Beat>> {
    let rows = backend.scan(&Scan::all(&schema::REPLICA_BEAT, key![service.name()], MOST_CORES)).await?;
    let beats = rows.iter().filter_map(|row| {
        let replica = row.clustering.first()?.text().to_owned();
        Some(Beat { replica, number: row.version, gone: *row.body == *GONE })
    });
    Ok(beats.collect())
}

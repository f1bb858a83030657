//! Creates the pending deliveries of events that a fan-out has matched, at the core that hands them out.
//!
//! So the work grows with the cores, and a delivery goes from the core that creates it to a worker without a read. If
//! that core does not confirm in time, the core of the fan-out creates the same deliveries itself. A repeat changes no
//! row. Its deliveries may have been sent, so the core that hands them out reads them first.

use std::{collections::HashMap, mem::take, sync::Arc};

use bytes::Bytes;
use futures::future::try_join_all;
use prost::Message as _;
use thesis_proto::{json::event_json, v1};

use crate::{
    convert,
    domain::{
        dataset::Dataset,
        delivery::{Delivery, EventRef, delivery_id},
        entry::{Entry, SequencedEntry},
    },
    error,
    queue_hints::PendingDelivery,
    replicas::peers::Peers,
    shared::Shared,
    store::{StoreError, StoreResult},
    tables::queue::shard_of,
};

/// Maximum number of webhooks of one [`MatchedEvent`], and number of deliveries from which a write or a request is
/// full.
const CHUNK: usize = 500;
/// Size from which a request to another core is full, in bytes. With one more event it is below the limit of 256 KiB.
const FULL_BYTES: usize = 100 * 1024;
/// Approximate size of a webhook's id in a request.
const WEBHOOK_BYTES: usize = 32;

type Result<T, E = error::Error> = std::result::Result<T, E>;

/// An event, and webhooks that it matches.
#[derive(Clone)]
pub struct MatchedEvent {
    pub event: Arc<SequencedEntry>,
    pub webhooks: Vec<String>,
}

impl MatchedEvent {
    fn bytes(&self) -> usize {
        self.event.entry.encoded_len() + self.webhooks.len() * WEBHOOK_BYTES
    }

    fn to_message(&self) -> v1::MatchedEvent {
        let SequencedEntry { seq, entry } = &*self.event;
        let entry = v1::LogEntry { seq: *seq, body: entry.stored(*seq).into() };
        v1::MatchedEvent { entry: Some(entry), webhook_ids: self.webhooks.clone() }
    }

    /// Decodes an event that another core has matched.
    pub fn from_message(message: v1::MatchedEvent) -> StoreResult<Self> {
        let v1::LogEntry { seq, body } = message.entry.unwrap_or_default();
        let entry = Entry::from_stored(seq, body).map_err(|error| StoreError::Damaged(format!("event: {error}")))?;
        Ok(Self { event: Arc::new(SequencedEntry { seq, entry }), webhooks: message.webhook_ids })
    }
}

/// Creates the deliveries of events, each at the core of its webhook's shard if that core is reached. `may_be_repeated`
/// is true if some of them may exist.
pub(super) async fn create_at_cores(
    shared: &Shared,
    peers: &Peers,
    dataset: &Dataset,
    events: Vec<MatchedEvent>,
    may_be_repeated: bool,
) -> Result<()> {
    let cores = peers.shard_cores();
    let core_of = |webhook: &str| cores.get(usize::try_from(shard_of(webhook)).ok()?).map(String::as_str);
    let mut by_core: HashMap<Option<&str>, Vec<MatchedEvent>> = HashMap::new();
    for MatchedEvent { event, webhooks } in events {
        let mut parts: HashMap<Option<&str>, Vec<String>> = HashMap::new();
        for webhook in webhooks {
            parts.entry(core_of(&webhook)).or_default().push(webhook);
        }
        for (core, webhooks) in parts {
            let part = |some: &[String]| MatchedEvent { event: Arc::clone(&event), webhooks: some.to_vec() };
            by_core.entry(core).or_default().extend(webhooks.chunks(CHUNK).map(part));
        }
    }
    let creating = by_core.into_iter().map(async |(core, events)| match core {
        None => create_deliveries(shared, dataset, &events, may_be_repeated).await,
        Some(core) => create_at(shared, peers, core, dataset, &events, may_be_repeated).await,
    });
    try_join_all(creating).await.map(drop)
}

/// Creates deliveries at a core. Those that it does not confirm, and all after them, are created here.
async fn create_at(
    shared: &Shared,
    peers: &Peers,
    core: &str,
    dataset: &Dataset,
    events: &[MatchedEvent],
    may_be_repeated: bool,
) -> Result<()> {
    let mut rest = events;
    while !rest.is_empty() {
        let (mut deliveries, mut bytes) = (0, 0);
        let fits = |event: &&MatchedEvent| {
            let has_room = deliveries < CHUNK && bytes < FULL_BYTES;
            deliveries += event.webhooks.len();
            bytes += event.bytes();
            has_room
        };
        let (some, later) = rest.split_at(rest.iter().take_while(fits).count());
        let is_requested = peers.may_create_deliveries(core);
        let is_created = is_requested && {
            let events = some.iter().map(MatchedEvent::to_message).collect();
            let (core, dataset) = (core.to_owned(), dataset.to_string());
            let request = v1::CreateDeliveriesRequest { core, dataset, events, may_be_repeated };
            peers.create_deliveries(request).await
        };
        if !is_created {
            // Without a confirmation, the other core may have created them all the same.
            create_deliveries(shared, dataset, some, may_be_repeated || is_requested).await?;
        }
        rest = later;
    }
    Ok(())
}

/// Creates the deliveries of events here. A repeat changes no row. `may_be_repeated` is true if some of them may exist.
pub async fn create_deliveries(
    shared: &Shared,
    dataset: &Dataset,
    events: &[MatchedEvent],
    may_be_repeated: bool,
) -> Result<()> {
    let mut pending = Vec::new();
    for MatchedEvent { event, webhooks } in events {
        let SequencedEntry { seq, entry } = &**event;
        let Some(event) = convert::entry::event(dataset, entry) else { continue };
        let body = Bytes::from(event_json(&event));
        pending.extend(webhooks.iter().map(|webhook| {
            // The id comes from the event's time and id, so a repeat creates the same delivery.
            let id = delivery_id(webhook, entry.created_at, &[&event.id]);
            let (event_id, event_type, dataset) = (event.id.clone(), event.r#type, dataset.to_string());
            let reference = EventRef { event_id, event_type, dataset, seq: *seq, trace: entry.trace.clone() };
            let delivery = Delivery::pending(id, webhook.clone(), entry.created_at, reference);
            PendingDelivery { delivery, body: body.clone(), erasure: 0, epoch: 0 }
        }));
        if pending.len() >= CHUNK {
            shared.create_deliveries(take(&mut pending), may_be_repeated, shared.clock.now_ms()).await?;
        }
    }
    if !pending.is_empty() {
        shared.create_deliveries(pending, may_be_repeated, shared.clock.now_ms()).await?;
    }
    Ok(())
}

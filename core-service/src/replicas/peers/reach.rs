//! The other cores that can be called, whether their notifications arrive or not, and the parts of the search index that
//! they have.

use std::{iter, sync::Arc, time::Duration};

use thesis_net::services::PeerCore;
use thesis_proto::v1;
use tokio::time::timeout;
use tonic::{Request, Response, Status, codegen::StdError};

use super::{Peers, broken, late};
use crate::{domain::id, replicas::members::OtherCore, tables::members::SearchPart};

/// Time limit for the search of another core, so that a request has time for a second one.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(800);

impl Peers {
    /// The other cores that may live and have an address. A core that has just started reads the heartbeats first.
    pub async fn reachable(&self) -> Vec<OtherCore> {
        if !self.members.has_read_beats()
            && let Err(error) = self.members.read_beats(iter::empty()).await
        {
            tracing::debug!(%error, "the heartbeats of other cores cannot be read");
        }
        let mut others = self.members.others().borrow().clone();
        others.retain(|other| !other.address.is_empty());
        others
    }

    /// The gRPC URL at which other cores reach this one; empty when they cannot.
    pub fn own_address(&self) -> String {
        self.members.address()
    }

    /// A connection of its own to another core, for much data. Notifications of that core do not wait for the data.
    pub fn connect(&self, core: &OtherCore) -> Result<Arc<PeerCore>, StdError> {
        (self.dial)(&core.address)
    }

    /// Lets other cores know which part of the search index this core has.
    pub fn publish_search(&self, part: SearchPart) {
        self.members.set_search(part);
    }

    /// The ids of the other live cores that have a month of the search index, of a version of it. Each core prefers
    /// others among them.
    pub fn cores_with_month(&self, version: u32, month: i64) -> Vec<String> {
        let (mut others, own, name) =
            (self.members.others().borrow().clone(), self.members.replica(), month.to_string());
        others.retain(|other| {
            let part = other.search.as_ref().filter(|part| part.version == version);
            other.owns && part.is_some_and(|part| part.months.contains(&month))
        });
        others.sort_by_cached_key(|other| id::derive("", &[&other.replica, own, &name]));
        others.into_iter().map(|other| other.replica).collect()
    }

    /// Searches months at the core that the request names.
    ///
    /// # Errors
    /// Fails if that core does not have them, or does not answer in time.
    pub async fn search_months(&self, request: v1::SearchMonthsRequest) -> Result<v1::SearchMonthsResponse, Status> {
        let peer = self.peers.lock().get(&request.core).cloned().ok_or_else(broken)?;
        let found = timeout(SEARCH_TIMEOUT, peer.core.search_months(Request::new(request))).await;
        found.map_err(|_| late())?.map(Response::into_inner)
    }
}

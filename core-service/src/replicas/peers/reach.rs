//! The other cores that can be called, whether their notifications arrive or not, and the parts of the search index that
//! they have.

use std::{iter, sync::Arc, time::Duration};

use futures::future::join_all;
use thesis_net::{services::PeerCore, status::REPORT_TIMEOUT};
use thesis_proto::v1;
use tokio::time::timeout;
use tonic::{Request, Response, Status, codegen::StdError};

use super::{Peers, broken, late};
use crate::{domain::id, replicas::members::OtherCore, tables::members::SearchPart};

/// Time limit for the search of another core while a third one has the months too, so that the request has time for it.
const FIRST_SEARCH_TIMEOUT: Duration = Duration::from_millis(800);

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

    /// True while this core's heartbeats arrive. Without the store it sees no other core, although all may live.
    pub fn has_recent_heartbeat(&self) -> bool {
        self.members.owns()
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

    /// Passes the report of a process on to all other cores. One that does not take it gets the next one.
    pub async fn relay(&self, report: &v1::ReportProcessRequest) {
        let peers: Vec<_> = self.peers.lock().values().cloned().collect();
        let sent =
            peers.iter().map(|peer| timeout(REPORT_TIMEOUT, peer.core.report_process(Request::new(report.clone()))));
        join_all(sent).await;
    }

    /// Searches months at the core that the request names. The last core that has them may take as long as the caller
    /// waits.
    ///
    /// # Errors
    /// Fails if that core has none of them, or does not answer in time.
    pub async fn search_months(
        &self,
        request: v1::SearchMonthsRequest,
        is_last: bool,
    ) -> Result<v1::SearchMonthsResponse, Status> {
        let peer = self.peers.lock().get(&request.core).cloned().ok_or_else(broken)?;
        let searching = peer.core.search_months(Request::new(request));
        let found = if is_last {
            searching.await
        } else {
            timeout(FIRST_SEARCH_TIMEOUT, searching).await.map_err(|_| late())?
        };
        found.map(Response::into_inner)
    }
}

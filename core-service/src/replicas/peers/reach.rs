//! The other cores that can be called, whether their notifications arrive or not.

use std::{iter, sync::Arc};

use thesis_net::services::PeerCore;
use tonic::codegen::StdError;

use super::Peers;
use crate::replicas::members::OtherCore;

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

    /// A connection of its own to another core, for much data. Notifications of that core do not wait for the data.
    pub fn connect(&self, core: &OtherCore) -> Result<Arc<PeerCore>, StdError> {
        (self.dial)(&core.address)
    }
}

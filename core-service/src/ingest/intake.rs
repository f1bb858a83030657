//! Applies observations to the `live` log.

use std::sync::Arc;

use futures::future::join_all;

use super::{objects::Refusal, status::Status};
use crate::{
    domain::{dataset::Dataset, observation::Observation},
    error::Result,
    log::{datasets::Datasets, writer::CommandOutcome},
};

pub(super) struct Intake {
    pub(super) datasets: Arc<Datasets>,
    pub(super) status: Arc<Status>,
}

impl Intake {
    /// Applies observations in order, and returns their outcomes. Observations that contradict known data are counted.
    /// A repeat changes nothing.
    pub(super) async fn apply(&self, observations: &[Observation]) -> Result<Vec<CommandOutcome>> {
        let observe = |observation: &Observation| self.datasets.observe_here(&Dataset::Live, observation.clone());
        // The writer receives and writes them in this order.
        let written = tokio::task::unconstrained(join_all(observations.iter().map(observe))).await;
        let written = written.into_iter().collect::<Result<Vec<_>>>()?;
        for field in written.iter().filter_map(|outcome| outcome.refused) {
            self.status.count_refused(Refusal::Contradiction(field));
        }
        Ok(written)
    }
}

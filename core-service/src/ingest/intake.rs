//! Takes observations into the `live` log.

use std::sync::Arc;

use futures::future::join_all;

use super::{objects::Refusal, status::Status};
use crate::{
    domain::{dataset::Dataset, observation::Observation},
    error::Result,
    log::datasets::Datasets,
};

/// Takes observations in.
pub(super) struct Intake {
    pub(super) datasets: Arc<Datasets>,
    pub(super) status: Arc<Status>,
}

impl Intake {
    /// Takes observations in, in order; tells of each whether it was news. Those that contradict known data are counted.
    /// Doing it again changes nothing.
    pub(super) async fn apply(&self, observations: &[Observation]) -> Result<Vec<bool>> {
        let observe = |observation: &Observation| self.datasets.observe_here(&Dataset::Live, observation.clone());
        // The writer gets them in this order, and writes them in it.
        let written = tokio::task::unconstrained(join_all(observations.iter().map(observe))).await;
        let mut applied = Vec::with_capacity(written.len());
        for written in written {
            let written = written?;
            if let Some(field) = written.refused {
                self.status.count_refused(Refusal::Contradiction(field));
            }
            applied.push(written.applied);
        }
        Ok(applied)
    }
}

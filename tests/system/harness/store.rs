//! Where a service of a test's own keeps its data.

use super::nodes;

/// Where a service of a test's own keeps its data.
pub(crate) enum Store {
    /// In its folder.
    Embedded,
    /// On these CQL nodes, comma-separated.
    Cluster(String),
}

impl Store {
    /// The cluster that `TEST_SCYLLA_NODES` names, if it names one.
    pub(crate) fn cluster() -> Option<Self> {
        let nodes = nodes();
        if nodes.is_none() {
            println!("left out: TEST_SCYLLA_NODES names no CQL cluster");
        }
        nodes.map(Self::Cluster)
    }
}

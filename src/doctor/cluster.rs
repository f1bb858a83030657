//! The cluster: nodes, user, data centre, copies, keyspace, clock.

use core_service::{
    keys::secret_check,
    store::scylla::{Cluster, Keyspace, examine},
};
use thesis_net::clock::SystemClock;

use super::{clock, finding::Finding, store};
use crate::config::Settings;

/// Minimum number of copies with which one node may be away.
const MIN_COPIES: usize = 3;

pub(super) async fn check(settings: &Settings) -> Vec<Finding> {
    // The check of the settings reports wrong ones.
    let Ok(options) = settings.store.scylla() else { return Vec::new() };
    match examine(&options, &SystemClock, &secret_check::scans()).await {
        Ok(cluster) => {
            let secret_key = settings.keys.secret_key().ok().flatten();
            let fits = store::judge("keyspace", &settings.keys, secret_key, &cluster.rows);
            findings(&cluster, &options.datacenter, &options.keyspace).into_iter().chain(fits).collect()
        }
        Err(error) => vec![Finding::refused("cluster", settings.store.refused(&error))],
    }
}

fn findings(cluster: &Cluster, datacenter: &str, keyspace: &str) -> Vec<Finding> {
    let Cluster { nodes, copies, ahead_ms, within_ms, .. } = *cluster;
    let seen = format!("the data centre `{datacenter}` has {nodes} nodes, and each row has {copies} copies");
    let nodes = if copies < MIN_COPIES {
        let todo = "have three nodes and three copies, so that one node may be away";
        Finding::warning("cluster", format!("{seen}: a node that is away stops the service"), todo)
    } else {
        Finding::ok("cluster", seen)
    };
    let keyspace = match &cluster.keyspace {
        Keyspace::Missing => format!("`{keyspace}` does not exist yet; a start makes it"),
        Keyspace::Known(missing) if missing.is_empty() => format!("`{keyspace}` has the tables of this version"),
        Keyspace::Known(missing) => format!("`{keyspace}` is older; a start applies {}", missing.join(", ")),
    };
    vec![nodes, Finding::ok("keyspace", keyspace), clock::against("the cluster's clock", ahead_ms, within_ms)]
}

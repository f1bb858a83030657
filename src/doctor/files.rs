//! The limit of open files, and the connections that it allows.

use super::finding::Finding;
use crate::files::Files;

/// Client connections below which the report calls the limit low.
const MIN_CONNECTIONS: usize = 1_000;

pub(super) fn check() -> Finding {
    let (soft, hard, files) = Files::known();
    let text = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let seen = format!(
        "soft limit {}, hard limit {}: a start raises the soft one, and takes at most {} connections of clients and {} of gRPC",
        text(soft),
        text(hard),
        files.http,
        files.grpc
    );
    if files.http < MIN_CONNECTIONS {
        let todo = "raise the hard limit: `ulimit -Hn` as root, or LimitNOFILE of systemd";
        return Finding::warning("files", seen, todo);
    }
    Finding::ok("files", seen)
}

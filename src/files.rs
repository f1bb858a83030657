//! The number of files, and so of connections, that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limit used where the system names none.
const DEFAULT_LIMIT: u64 = 1 << 20;
/// Maximum connections of a kind: nobody needs more, and each takes some memory.
const MAX_CONNECTIONS: u64 = 20_000;

/// The shares of connections in the open files; the rest is for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// Files that may be open.
    pub(crate) limit: u64,
    pub(crate) http: usize,
    /// Connections of gRPC clients, and of the roles if those have no other listener.
    pub(crate) grpc: usize,
    /// Connections of the roles at a listener of their own.
    pub(crate) internal: usize,
    pub(crate) ops: usize,
}

impl Files {
    /// Raises the limit as far as this process may.
    pub(crate) fn raised() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        Self::shared(if raised.is_ok() { maximum } else { current }.unwrap_or(DEFAULT_LIMIT))
    }

    /// The limit of this process, the highest that it can have, and the files after a start has raised it.
    pub(crate) fn known() -> (Option<u64>, Option<u64>, Self) {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        (current, maximum, Self::shared(maximum.unwrap_or(DEFAULT_LIMIT)))
    }

    fn shared(limit: u64) -> Self {
        let part =
            |twentieths: u64| usize::try_from((limit / 20 * twentieths).min(MAX_CONNECTIONS)).unwrap_or(usize::MAX);
        let ops = usize::try_from(limit / 100).unwrap_or(100).min(100);
        Self { limit, http: part(17), grpc: part(1), internal: part(1), ops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_always_has_some_files_left() {
        for limit in [1_024, 4_096, 20_000, DEFAULT_LIMIT] {
            let files = Files::shared(limit);
            assert!(limit - (files.http + files.grpc + files.internal + files.ops) as u64 >= limit / 50, "{files:?}");
        }
        assert_eq!(Files::shared(20_000).http, 17_000);
    }
}

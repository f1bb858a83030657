//! The version of the program, and the commit that it is made of (`build.rs`).

/// The version, as `CHANGELOG.md` has it.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, with `-dirty` if the program was made of more; `unknown` if the build did not know it.
pub(crate) const COMMIT: &str = env!("SVC_BUILD_COMMIT");
/// Both, as `--version` prints them.
pub(crate) const BOTH: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("SVC_BUILD_COMMIT"), ")");

/// The response of `/healthz`.
pub(crate) const HEALTHY: &str = concat!("ok ", env!("CARGO_PKG_VERSION"), " (", env!("SVC_BUILD_COMMIT"), ")\n");

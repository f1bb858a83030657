//! The version of the program, and the commit that it is made of (`build.rs`).

use metrics::Gauge;
use thesis_net::metric;

/// The version, as `CHANGELOG.md` has it.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, with `-dirty` if the program was made of more; `unknown` if the build did not know it.
pub(crate) const COMMIT: &str = env!("SVC_BUILD_COMMIT");
/// Both, as `--version` prints them.
pub(crate) const BOTH: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("SVC_BUILD_COMMIT"), ")");

/// The response of `/healthz`.
pub(crate) const HEALTHY: &str = concat!("ok ", env!("CARGO_PKG_VERSION"), " (", env!("SVC_BUILD_COMMIT"), ")\n");

/// Records both as a metric that is always 1.
pub(crate) fn measure() {
    metric::describe::<Gauge>("build_info", "Always 1: the version and commit of the program");
    metrics::gauge!("build_info", "version" => VERSION, "commit" => COMMIT).set(1.0);
}

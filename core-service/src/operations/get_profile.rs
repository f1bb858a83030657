//! Reads a profile.

use thesis_proto::v1;

use super::{refresh, resolve::ProfileReference};
use crate::{access::gate::Call, convert, error::Result, service::Core};

/// Reads a profile, with its wallet if the Wallets API is enabled and the key may read wallets.
///
/// # Errors
/// `PROFILE_NOT_FOUND`, `UPSTREAM_UNAVAILABLE`, or when the store does not answer.
pub async fn get_profile(core: &Core, call: &Call, reference: &ProfileReference) -> Result<v1::Profile> {
    let (dataset, mut profile, mut stale) = refresh::read_profile(core, call, reference).await?;
    if call.shows_wallets() {
        let wallets;
        (profile, wallets) = refresh::refresh_wallets(core, call, profile).await?;
        stale |= wallets != refresh::WalletsState::Current;
    }
    let mut shown = convert::row::profile(&dataset, &profile, call.shows_wallets());
    shown.stale = stale.then_some(true);
    Ok(shown)
}

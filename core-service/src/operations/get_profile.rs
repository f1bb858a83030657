//! Reads a profile.

use thesis_proto::v1;

use super::{
    Core,
    resolve::{self, ProfileReference},
};
use crate::{access::gate::Call, convert, error::Result};

/// Reads a profile; its wallet where the Wallets API is enabled and the key may read wallets.
///
/// # Errors
/// `PROFILE_NOT_FOUND`, or when the store does not answer.
pub async fn get_profile(core: &Core, call: &Call, reference: &ProfileReference) -> Result<v1::Profile> {
    let (dataset, profile) = resolve::profile(core, call, reference).await?;
    Ok(convert::row::profile(&dataset, &profile, call.shows_wallets()))
}

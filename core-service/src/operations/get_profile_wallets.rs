//! Reads the wallets of a profile.

use thesis_proto::{time::from_millis, v1};

use super::{refresh, resolve::ProfileReference};
use crate::{access::gate::Call, convert, error::Result, service::Core};

/// Reads the wallets of a profile.
///
/// # Errors
/// `PROFILE_NOT_FOUND`, `UPSTREAM_UNAVAILABLE`, or when the store does not answer.
pub async fn get_profile_wallets(core: &Core, call: &Call, reference: &str) -> Result<v1::ProfileWallets> {
    let (dataset, profile, _) = refresh::read_profile(core, call, &ProfileReference::Any(reference.to_owned())).await?;
    let (profile, wallets) = refresh::refresh_wallets(core, call, profile).await?;
    if let refresh::WalletsState::Unknown { after_s } = wallets {
        return Err(refresh::upstream_unavailable(after_s));
    }
    let wallets = profile.wallets.iter().map(|wallet| v1::ObservedWallet {
        address: wallet.address.clone(),
        network: wallet.network.clone(),
        observed_at: Some(from_millis(wallet.observed_at)),
    });
    Ok(v1::ProfileWallets {
        profile: Some(convert::row::profile_ref(&profile)),
        wallets: wallets.collect(),
        livemode: dataset.livemode(),
    })
}

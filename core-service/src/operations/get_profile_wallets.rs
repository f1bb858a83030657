//! Reads the wallets of a profile. Fails with `PROFILE_NOT_FOUND` or `UPSTREAM_UNAVAILABLE`.

use thesis_proto::{time::from_millis, v1};

use super::{fields::Fields, refresh};
use crate::{access::gate::Call, convert, domain::reference::ProfileReference, error::Result, service::Core};

pub async fn get_profile_wallets(
    core: &Core,
    call: &Call,
    message: v1::GetProfileWalletsRequest,
) -> Result<v1::GetProfileWalletsResponse> {
    let mut fields = Fields::default();
    fields.length("ref", &message.r#ref, 1..=80);
    fields.finish()?;
    call.charge().await?;
    let reference = ProfileReference::Any(message.r#ref);
    let (dataset, profile, _) = refresh::read_profile(core, call, &reference).await?;
    let (profile, wallets) = refresh::refresh_wallets(core, call, profile).await?;
    if let refresh::WalletsState::Unknown { after_s } = wallets {
        return Err(refresh::upstream_unavailable(after_s));
    }
    let wallets = profile.wallets.iter().map(|wallet| v1::ObservedWallet {
        address: wallet.address.clone(),
        network: wallet.network.clone(),
        observed_at: Some(from_millis(wallet.observed_at)),
    });
    let profile_wallets = v1::ProfileWallets {
        profile: Some(convert::row::profile_ref(&profile)),
        wallets: wallets.collect(),
        livemode: dataset.livemode(),
    };
    Ok(v1::GetProfileWalletsResponse { profile_wallets: Some(profile_wallets) })
}

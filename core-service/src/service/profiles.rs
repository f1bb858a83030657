//! Reads profiles and their wallets.

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, time::from_millis, v1};

use super::{
    core::Core,
    error::{Error, Result},
    gate::Call,
    resolve,
};
use crate::{
    convert,
    domain::{dataset::Dataset, operation::Feature, row::Profile},
};

/// How a profile is named.
#[derive(Clone, Debug)]
pub enum Reference {
    /// Anything.
    Any(String),
    /// An `fp_` id or an upstream user id.
    AnyId(String),
    /// An `fp_` id.
    Id(String),
    /// A handle.
    Handle(String),
    /// An upstream user id.
    Upstream(String),
}

async fn find(core: &Core, call: &Call, reference: &Reference) -> Result<(Dataset, Arc<Profile>)> {
    let (view, theses) = (&call.caller.view, &core.shared.theses);
    let found = match resolve::profile_id(&core.shared, view, reference).await? {
        Some(id) => theses.profile(view, &id).await?,
        None => None,
    };
    found.ok_or_else(|| Error::new(ErrorCode::ProfileNotFound, "there is no such profile"))
}

/// Reads a profile; its wallet where the Wallets API is enabled.
///
/// # Errors
/// `PROFILE_NOT_FOUND`, or when the store does not answer.
pub async fn get(core: &Core, call: &Call, reference: &Reference) -> Result<v1::Profile> {
    let (dataset, profile) = find(core, call, reference).await?;
    Ok(convert::row::profile(&dataset, &profile, core.gate.features().has(Feature::Wallets)))
}

/// Reads the wallets of a profile.
///
/// # Errors
/// `PROFILE_NOT_FOUND`, or when the store does not answer.
pub async fn wallets(core: &Core, call: &Call, reference: &str) -> Result<v1::ProfileWallets> {
    let (dataset, profile) = find(core, call, &Reference::Any(reference.to_owned())).await?;
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

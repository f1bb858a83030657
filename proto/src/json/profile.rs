//! Profiles and their wallets.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Source, Time, constant, each, is_false, part};
use crate::v1;

/// An author, in short.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ProfileRef<'a> {
    /// Id of the profile, prefix `fp_`.
    id: &'a str,
    /// With the leading `@`.
    handle: &'a str,
    /// Name that the profile shows.
    #[schema(required)]
    display_name: Option<&'a str>,
    /// Picture of the profile.
    #[schema(required, format = "uri")]
    avatar_url: Option<&'a str>,
}

impl<'a> From<&'a v1::ProfileRef> for ProfileRef<'a> {
    fn from(profile: &'a v1::ProfileRef) -> Self {
        Self {
            id: &profile.id,
            handle: &profile.handle,
            display_name: profile.display_name.as_deref(),
            avatar_url: profile.avatar_url.as_deref(),
        }
    }
}

/// A public wallet association.
#[derive(Debug, Serialize, ToSchema)]
pub struct Wallet<'a> {
    /// Address of the wallet.
    address: &'a str,
    /// Network of the wallet, such as `ethereum`.
    network: &'a str,
}

impl<'a> From<&'a v1::Wallet> for Wallet<'a> {
    fn from(wallet: &'a v1::Wallet) -> Self {
        Self { address: &wallet.address, network: &wallet.network }
    }
}

/// A public profile of the upstream platform.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Profile<'a> {
    #[schema(schema_with = constant::profile)]
    object: &'static str,
    /// Prefix `fp_`.
    id: &'a str,
    /// With the leading `@`.
    handle: &'a str,
    /// Name that the profile shows.
    #[schema(required)]
    display_name: Option<&'a str>,
    /// Picture of the profile.
    #[schema(required, format = "uri")]
    avatar_url: Option<&'a str>,
    /// Public profile page on the upstream platform.
    #[schema(required, format = "uri")]
    profile_url: Option<&'a str>,
    /// What the profile says about itself.
    #[schema(required)]
    bio: Option<&'a str>,
    /// Whether the upstream calls the profile verified; null when it does not say.
    #[schema(required)]
    verified: Option<bool>,
    /// Where it came from.
    source: Source,
    /// True for live data, false for test data.
    livemode: bool,
    /// When the account was created upstream, when known.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    created_at: Option<Time>,
    /// When the service first observed the profile.
    #[schema(value_type = String, format = DateTime)]
    first_seen_at: Time,
    /// When the service last changed the profile.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
    /// When the upstream last changed the profile, when known.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    source_updated_at: Option<Time>,
    /// True when cached data is served because the upstream could not be reached.
    #[serde(skip_serializing_if = "is_false")]
    stale: bool,
    /// Present only when the Wallets API is enabled and the association is public and authorized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Wallet)]
    wallet: Option<Wallet<'a>>,
}

impl<'a> From<&'a v1::Profile> for Profile<'a> {
    fn from(profile: &'a v1::Profile) -> Self {
        Self {
            object: "profile",
            id: &profile.id,
            handle: &profile.handle,
            display_name: profile.display_name.as_deref(),
            avatar_url: profile.avatar_url.as_deref(),
            profile_url: profile.profile_url.as_deref(),
            bio: profile.bio.as_deref(),
            verified: profile.verified,
            source: Source::from(&profile.source),
            livemode: profile.livemode,
            created_at: profile.created_at.as_ref().map(Time::from),
            first_seen_at: part(&profile.first_seen_at),
            updated_at: part(&profile.updated_at),
            source_updated_at: profile.source_updated_at.as_ref().map(Time::from),
            stale: profile.stale.unwrap_or_default(),
            wallet: profile.wallet.as_ref().map(Wallet::from),
        }
    }
}

/// A wallet and when its association was observed.
#[derive(Debug, Serialize, ToSchema)]
pub struct ObservedWallet<'a> {
    /// Address of the wallet.
    address: &'a str,
    /// Network of the wallet, such as `ethereum`.
    network: &'a str,
    /// When the association was last observed.
    #[schema(value_type = String, format = DateTime)]
    observed_at: Time,
}

impl<'a> From<&'a v1::ObservedWallet> for ObservedWallet<'a> {
    fn from(wallet: &'a v1::ObservedWallet) -> Self {
        Self { address: &wallet.address, network: &wallet.network, observed_at: part(&wallet.observed_at) }
    }
}

/// The public, authorized wallet associations of a profile.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProfileWallets<'a> {
    #[schema(schema_with = constant::profile_wallets)]
    object: &'static str,
    /// The profile.
    profile: ProfileRef<'a>,
    /// Its wallets, the one observed last first.
    wallets: Vec<ObservedWallet<'a>>,
    /// True for live data, false for test data.
    livemode: bool,
}

impl<'a> From<&'a v1::ProfileWallets> for ProfileWallets<'a> {
    fn from(wallets: &'a v1::ProfileWallets) -> Self {
        Self {
            object: "profile_wallets",
            profile: part(&wallets.profile),
            wallets: each(&wallets.wallets),
            livemode: wallets.livemode,
        }
    }
}

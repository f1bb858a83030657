//! Reads a profile, with its wallet if the Wallets API is enabled and the key may read wallets. Fails with
//! `PROFILE_NOT_FOUND` or `UPSTREAM_UNAVAILABLE`.

use thesis_proto::v1;

use super::{fields::Fields, refresh};
use crate::{
    access::gate::Call,
    convert,
    domain::reference::ProfileReference,
    error::{Error, Result},
    service::Core,
};

fn reference(message: v1::GetProfileRequest) -> Result<ProfileReference> {
    let mut fields = Fields::default();
    fields.optional_length("ref", message.r#ref.as_deref(), 1..=80);
    fields.optional_length("id", message.id.as_deref(), 1..=64);
    fields.optional_length("handle", message.handle.as_deref(), 1..=64);
    fields.optional_length("upstream_user_id", message.upstream_user_id.as_deref(), 1..=64);
    let given = [
        message.r#ref.map(ProfileReference::Any),
        message.id.map(ProfileReference::Id),
        message.handle.map(ProfileReference::Handle),
        message.upstream_user_id.map(ProfileReference::Upstream),
    ];
    let mut given: Vec<ProfileReference> = given.into_iter().flatten().collect();
    if given.len() != 1 {
        fields.reject("id", "give exactly one of id, handle and upstream_user_id");
    }
    fields.finish()?;
    given.pop().ok_or_else(|| Error::internal("a reference that was there is gone"))
}

pub async fn get_profile(core: &Core, call: &Call, message: v1::GetProfileRequest) -> Result<v1::GetProfileResponse> {
    let reference = reference(message)?;
    call.charge().await?;
    let (dataset, mut row, mut stale) = refresh::read_profile(core, call, &reference).await?;
    if call.shows_wallets() {
        let wallets;
        (row, wallets) = refresh::refresh_wallets(core, call, row).await?;
        stale |= wallets != refresh::WalletsState::Current;
    }
    let mut profile = convert::row::profile(&dataset, &row, call.shows_wallets());
    profile.stale = stale.then_some(true);
    Ok(v1::GetProfileResponse { profile: Some(profile) })
}

//! Lists the second factors of a person.

use thesis_proto::{time::from_millis, v1};

use crate::{
    accounts::Person,
    error::Result,
    service::Core,
    store::Consistency,
    tables::account::{self as rows, Passkey},
};

pub(super) fn passkey(row: &Passkey) -> v1::Passkey {
    v1::Passkey {
        id: row.id.clone(),
        name: row.name.clone(),
        created_at: Some(from_millis(row.created_at)),
        used_at: row.used_at.map(from_millis),
    }
}

pub async fn list_factors(core: &Core, person: &Person, _: &v1::ListFactorsRequest) -> Result<v1::ListFactorsResponse> {
    let (_, factors) = rows::factors(&core.shared.backend, &person.user.id, Consistency::Quorum).await?;
    Ok(v1::ListFactorsResponse {
        totp_since: factors.totp.as_ref().map(|totp| from_millis(totp.created_at)),
        passkeys: factors.passkeys.iter().map(passkey).collect(),
        recovery_codes: u32::try_from(factors.recovery_codes.len()).unwrap_or_default(),
        may_add_passkey: core.accounts.passkey_site.is_some(),
    })
}

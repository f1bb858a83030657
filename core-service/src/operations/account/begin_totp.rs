//! Creates the secret of an authenticator app. The app is no factor until the user types a code of it (`AddTotp`).

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use thesis_proto::v1;

use crate::{
    accounts::{
        Person,
        factors::{self, totp},
    },
    error::Result,
    keys::key_ring::SealPurpose,
    service::Core,
    tables::account::{Factors, Totp},
};

/// The name of the service in authenticator apps, encoded for a URI.
const ISSUER: &str = "Trade%20Thesis";

pub async fn begin_totp(core: &Core, person: &Person, _: &v1::BeginTotpRequest) -> Result<v1::BeginTotpResponse> {
    let (shared, user) = (&core.shared, &person.user);
    let mut secret = [0; totp::SECRET];
    shared.ids.fill(&mut secret);
    let sealed = shared.keys.seal(SealPurpose::TotpSecret(&user.id), &secret);
    let new = Totp { secret: sealed.into(), created_at: person.now_ms, last_step: 0 };
    let begin = |factors: &mut Factors| {
        factors.new_totp = Some(new.clone());
        Ok(())
    };
    factors::change(shared, &user.id, (&person.actor, "factor.begun"), begin).await?;
    let secret = totp::base32(&secret);
    let account = utf8_percent_encode(&user.email, NON_ALPHANUMERIC);
    let uri = format!("otpauth://totp/{ISSUER}:{account}?secret={secret}&issuer={ISSUER}");
    Ok(v1::BeginTotpResponse { secret, uri })
}

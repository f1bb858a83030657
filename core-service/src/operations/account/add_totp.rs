//! Registers an authenticator app by a code that it shows. With the first second factor come recovery codes.

use thesis_proto::v1;

use crate::{
    accounts::{
        Person,
        attempts::{self, CODES_OF_USER},
        factors::{self, new_recovery_codes, recovery_hash, totp, wrong_proof},
        notices::{self, Notice},
    },
    domain::window::HOUR_MS,
    error::{Error, Result},
    keys::key_ring::SealPurpose,
    operations::admin::invalid,
    service::Core,
    tables::account::Factors,
};

/// The app must be registered within this time after its secret was created, in milliseconds.
const NEW_MS: i64 = HOUR_MS;

pub async fn add_totp(core: &Core, person: &Person, message: &v1::AddTotpRequest) -> Result<v1::AddTotpResponse> {
    let (shared, user_id) = (&core.shared, &person.user.id);
    let reserved = attempts::reserve(shared, &CODES_OF_USER, user_id).await?;
    let codes = new_recovery_codes(shared);
    let add = |factors: &mut Factors| {
        let new = factors.new_totp.clone().filter(|new| person.now_ms - new.created_at < NEW_MS);
        let mut new = new.ok_or_else(|| invalid("code", "belongs to no new app; start again"))?;
        let secret = shared.keys.open(SealPurpose::TotpSecret(user_id), &new.secret);
        let secret = secret.ok_or_else(|| Error::internal("the secret of a new app cannot be read"))?;
        let wrong = || wrong_proof(&v1::FactorProof { code: Some(String::new()), ..v1::FactorProof::default() });
        new.last_step = totp::matching_step(&secret, &message.code, person.now_ms, 0).ok_or_else(wrong)?;
        let is_first = !factors.are_required();
        if is_first {
            factors.recovery_codes = codes.iter().map(|code| recovery_hash(shared, user_id, code)).collect();
        }
        (factors.totp, factors.new_totp) = (Some(new), None);
        Ok(is_first)
    };
    let (_, is_first) = factors::change(shared, user_id, (&person.actor, "factor.added"), add).await?;
    attempts::give_back(shared, [reserved]).await;
    factors::publish(shared, user_id, &person.actor, true).await?;
    notices::post(&core.accounts, shared, &person.user, Notice::FactorAdded, person.actor.address.as_deref()).await;
    Ok(v1::AddTotpResponse { recovery_codes: if is_first { codes } else { Vec::new() } })
}

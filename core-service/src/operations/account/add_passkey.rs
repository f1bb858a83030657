//! Registers a passkey. With the first second factor come recovery codes.

use thesis_proto::v1;

use super::{begin_passkey::site, list_factors::passkey};
use crate::{
    accounts::{
        Person,
        factors::{
            self, ChallengePurpose, MAX_PASSKEYS, challenge_of, new_recovery_codes, passkeys::read_credential,
            recovery_hash, use_for_registration,
        },
        notices::{self, Notice},
    },
    domain::id,
    error::Result,
    operations::admin::{invalid, limit_reached, name},
    service::Core,
    tables::account::{Factors, Passkey},
};

pub async fn add_passkey(
    core: &Core,
    person: &Person,
    message: &v1::AddPasskeyRequest,
) -> Result<v1::AddPasskeyResponse> {
    let (shared, user_id) = (&core.shared, &person.user.id);
    let (site, name) = (site(core)?, name(&message.name)?);
    let purpose = ChallengePurpose::Registration(person.session_id.clone());
    let challenge = challenge_of(shared, person, &message.challenge, &purpose)?;
    let credential = read_credential(site, &challenge.token, &message.client_data, &message.authenticator_data);
    let refused = || invalid("passkey", "was not accepted: its key has a form that the service does not know");
    let credential = credential.ok_or_else(refused)?;
    let new = Passkey {
        id: id::random("psk_", shared.ids.as_ref()),
        name,
        credential_id: credential.id.into(),
        algorithm: credential.key.algorithm,
        public_key: credential.key.bytes.into(),
        count: credential.count,
        created_at: person.now_ms,
        used_at: None,
    };
    let codes = new_recovery_codes(shared);
    let add = |factors: &mut Factors| {
        use_for_registration(factors, &challenge, person.now_ms)?;
        if factors.passkeys.len() >= MAX_PASSKEYS {
            return Err(limit_reached(&format!("a user has at most {MAX_PASSKEYS} passkeys; remove one")));
        }
        if factors.passkeys.iter().any(|one| one.credential_id == new.credential_id) {
            return Err(invalid("passkey", "is registered already"));
        }
        let is_first = !factors.are_required();
        if is_first {
            factors.recovery_codes = codes.iter().map(|code| recovery_hash(shared, user_id, code)).collect();
        }
        factors.passkeys.push(new.clone());
        Ok(is_first)
    };
    let (_, is_first) = factors::change(shared, user_id, (&person.actor, "factor.added"), add).await?;
    factors::publish(shared, user_id, &person.actor, true).await?;
    notices::post(&core.accounts, shared, &person.user, Notice::FactorAdded, person.actor.address.as_deref()).await;
    let recovery_codes = if is_first { codes } else { Vec::new() };
    Ok(v1::AddPasskeyResponse { passkey: Some(passkey(&new)), recovery_codes })
}

//! Removes a second factor. With the last one, the recovery codes are removed too.

use thesis_proto::v1;

use crate::{
    accounts::{
        Person, factors,
        notices::{self, Notice},
    },
    error::Result,
    service::Core,
    tables::account::Factors,
};

/// The id of the authenticator app.
const TOTP: &str = "totp";

pub async fn remove_factor(
    core: &Core,
    person: &Person,
    message: &v1::RemoveFactorRequest,
) -> Result<v1::RemoveFactorResponse> {
    let (shared, user_id) = (&core.shared, &person.user.id);
    let remove = |factors: &mut Factors| {
        let before = (factors.totp.is_some(), factors.passkeys.len());
        if message.id == TOTP {
            factors.totp = None;
        }
        factors.passkeys.retain(|one| one.id != message.id);
        Ok(before != (factors.totp.is_some(), factors.passkeys.len()))
    };
    let (left, is_removed) = factors::change(shared, user_id, (&person.actor, "factor.removed"), remove).await?;
    factors::publish(shared, user_id, &person.actor, left.are_required()).await?;
    if is_removed {
        let address = person.actor.address.as_deref();
        notices::post(&core.accounts, shared, &person.user, Notice::FactorRemoved, address).await;
    }
    Ok(v1::RemoveFactorResponse {})
}

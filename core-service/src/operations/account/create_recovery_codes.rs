//! Replaces the recovery codes of a person who has a second factor.

use thesis_proto::v1;

use crate::{
    accounts::{
        Person,
        factors::{self, new_recovery_codes, recovery_hash},
        notices::{self, Notice},
    },
    error::Result,
    operations::admin::invalid,
    service::Core,
    tables::account::Factors,
};

pub async fn create_recovery_codes(
    core: &Core,
    person: &Person,
    _: &v1::CreateRecoveryCodesRequest,
) -> Result<v1::CreateRecoveryCodesResponse> {
    let (shared, user_id) = (&core.shared, &person.user.id);
    let recovery_codes = new_recovery_codes(shared);
    let replace = |factors: &mut Factors| {
        if !factors.are_required() {
            return Err(invalid("recovery_codes", "need a second factor; add one first"));
        }
        factors.recovery_codes = recovery_codes.iter().map(|code| recovery_hash(shared, user_id, code)).collect();
        Ok(())
    };
    factors::change(shared, user_id, (&person.actor, "factor.recovery_codes_created"), replace).await?;
    let address = person.actor.address.as_deref();
    notices::post(&core.accounts, shared, &person.user, Notice::RecoveryCodesCreated, address).await;
    Ok(v1::CreateRecoveryCodesResponse { recovery_codes })
}

//! Mails another link that confirms an e-mail.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::{
        Person,
        attempts::{self, CONFIRMATIONS_OF_USER},
        confirmations,
    },
    error::Result,
    operations::Core,
};

/// Mails the user another link that confirms their e-mail; nothing is sent once it is confirmed.
///
/// # Errors
/// `EMAIL_NOT_CONFIRMED` where no mail is sent, `RATE_LIMITED`, or when the store does not answer.
pub async fn send_confirmation(
    core: &Core,
    person: &Person,
    _: &v1::SendConfirmationRequest,
) -> Result<v1::SendConfirmationResponse> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let is_confirmed = rights::demand_confirmed(&shared.control.state(), &person.actor).is_ok();
    if is_confirmed {
        return Ok(v1::SendConfirmationResponse {});
    }
    if core.accounts.mail.is_none() {
        return Err(rights::email_not_confirmed());
    }
    attempts::of_user(shared, &CONFIRMATIONS_OF_USER, &person.user.id).await?;
    confirmations::post(&core.accounts, shared, &person.user);
    Ok(v1::SendConfirmationResponse {})
}

//! Sends a link for a new password.

use std::sync::Arc;

use thesis_proto::v1;

use crate::{
    accounts::{
        attempts::{self, RESET_FROM_ADDRESS, RESET_OF_ACCOUNT},
        fields::{email_fault, refuse},
        mail::Letter,
        resets, sessions,
    },
    error::Result,
    operations::Core,
};

/// Sends a link for a new password to the user with this e-mail, if there is one and mail is sent. The work is done
/// after the answer, which is always the same.
///
/// # Errors
/// 422, `RATE_LIMITED` whether there is such a user or not, or when the store does not answer.
pub async fn request_password_reset(
    core: &Arc<Core>,
    address: Option<&str>,
    message: &v1::RequestPasswordResetRequest,
) -> Result<v1::RequestPasswordResetResponse> {
    refuse([email_fault("email", &message.email)])?;
    attempts::from_address(&core.shared, &RESET_FROM_ADDRESS, address).await?;
    attempts::of_account(&core.shared, &RESET_OF_ACCOUNT, &message.email).await?;
    let (core_of_task, email, address) = (Arc::clone(core), message.email.clone(), address.map(str::to_owned));
    core.tasks.spawn(async move {
        if let Err(error) = send(&core_of_task, &email, address.as_deref()).await {
            tracing::error!(%error, "a link for a new password was not sent");
        }
    });
    Ok(v1::RequestPasswordResetResponse {})
}

async fn send(core: &Core, email: &str, address: Option<&str>) -> Result<()> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let user = shared.control.state().people().user_by_email(email).cloned();
    let Some(user) = user else { return Ok(()) };
    let asked =
        vec![sessions::audit_row(shared, &sessions::actor(&user, address).does("password.reset_asked").to(&user.id))];
    let Some(mail) = &core.accounts.mail else {
        // An administrator finds it in the audit log, and makes a link to hand over.
        return Ok(shared.backend.apply(asked).await?);
    };
    let made = resets::make(shared, &user, true, asked).await?;
    mail.post(Letter::reset(&user.email, &core.accounts.link(&made.token)));
    Ok(())
}

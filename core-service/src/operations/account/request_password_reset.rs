//! Sends a link for a new password to the user with an e-mail, if there is one and mail is configured. The work runs
//! after the response, which is always the same. Earlier links stay valid.

use std::sync::Arc;

use thesis_proto::v1;

use crate::{
    accounts::{
        attempts::{self, RESET_FROM_ADDRESS, RESET_FROM_NETWORK, RESET_OF_ACCOUNT},
        fields::{email_fault, refuse},
        mail::Letter,
        resets::{self, MAILED},
        sessions,
    },
    domain::abuse::network_of_text,
    error::Result,
    service::Core,
};

pub async fn request_password_reset(
    core: &Arc<Core>,
    address: Option<&str>,
    message: &v1::RequestPasswordResetRequest,
) -> Result<v1::RequestPasswordResetResponse> {
    refuse([email_fault("email", &message.email)])?;
    let sends_mail = core.accounts.mail.is_some();
    attempts::from_address(&core.shared, &RESET_FROM_ADDRESS, address).await?;
    let network = address.map(network_of_text).unwrap_or_default();
    let account = format!("{}/{network}", attempts::account(&core.shared, &message.email));
    attempts::reserve(&core.shared, &RESET_FROM_NETWORK, &account).await?;
    if attempts::of_account_if_free(&core.shared, &RESET_OF_ACCOUNT, &message.email).await?.is_none() {
        // The account has used up its links of this hour or day, and each of them still works.
        return Ok(v1::RequestPasswordResetResponse { sends_mail });
    }
    let (core_of_task, email, address) = (Arc::clone(core), message.email.clone(), address.map(str::to_owned));
    core.tasks.spawn(async move {
        if let Err(error) = send(&core_of_task, &email, address.as_deref()).await {
            tracing::error!(%error, "a link for a new password was not sent");
        }
    });
    Ok(v1::RequestPasswordResetResponse { sends_mail })
}

async fn send(core: &Core, email: &str, address: Option<&str>) -> Result<()> {
    let shared = &core.shared;
    shared.control.refresh().await?;
    let user = shared.control.state().people().user_by_email(email).cloned();
    let Some(user) = user else { return Ok(()) };
    let audit_rows =
        vec![sessions::audit_row(shared, &sessions::actor(&user, address).does("password.reset_asked").to(&user.id))];
    let Some(mail) = &core.accounts.mail else {
        // An administrator sees the request in the audit log, and creates a link to hand over.
        return Ok(shared.backend.apply(audit_rows).await?);
    };
    let (token, _) = resets::create_link(shared, &user, MAILED, audit_rows).await?;
    mail.post(Letter::reset(&user.email, &core.accounts.link(&token)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use thesis_proto::error::ErrorCode;

    use super::*;
    use crate::{
        domain::window::{DAY_MS, HOUR_MS},
        tests::harness::{ManualClock, core, shared_memory},
    };

    #[tokio::test]
    async fn a_network_requests_3_links_an_hour_and_an_account_gets_10_and_20_a_day() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        let message = v1::RequestPasswordResetRequest { email: "ada@example.com".to_owned() };
        let request = async |address: &str| {
            let answer = request_password_reset(&core, Some(address), &message).await;
            answer.err().map(|error| error.api.code)
        };
        for _ in 0..3 {
            assert_eq!(request("192.0.2.1").await, None);
        }
        assert_eq!(request("192.0.2.1").await, Some(ErrorCode::RateLimited));
        let reserve = async || attempts::of_account_if_free(&core.shared, &RESET_OF_ACCOUNT, &message.email).await;
        for number in 4..=10 {
            assert_eq!(request(&format!("198.51.100.{number}")).await, None);
        }
        assert!(reserve().await.unwrap().is_none());
        // A caller beyond the limit gets the same response.
        assert_eq!(request("203.0.113.1").await, None);
        clock.advance(HOUR_MS);
        for number in 1..=10 {
            assert_eq!(request(&format!("198.51.100.{number}")).await, None);
        }
        for _ in 0..2 {
            assert!(reserve().await.unwrap().is_none());
            assert_eq!(request("192.0.2.1").await, None);
            clock.advance(HOUR_MS);
        }
        clock.advance(DAY_MS - 3 * HOUR_MS);
        assert!(reserve().await.unwrap().is_some());
    }
}

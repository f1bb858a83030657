//! Mails the user another link that confirms their e-mail. It sends nothing once the e-mail is confirmed.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::{
        Person,
        attempts::{self, CONFIRMATIONS_OF_USER},
        confirmations,
    },
    error::Result,
    service::Core,
};

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
    let limits = CONFIRMATIONS_OF_USER.map(|limit| (limit, person.user.id.clone()));
    attempts::reserve_all(shared, limits.into()).await?;
    confirmations::post(&core.accounts, shared, &person.user);
    Ok(v1::SendConfirmationResponse {})
}

#[cfg(test)]
mod tests {
    use thesis_proto::error::ErrorCode;

    use super::*;
    use crate::{
        accounts::sessions,
        domain::window::{DAY_MS, HOUR_MS},
        operations::account::sign_up::sign_up,
        tests::harness::{ManualClock, core_with_mail, shared_memory},
    };

    #[tokio::test]
    async fn a_user_gets_5_confirmations_an_hour_and_10_a_day() {
        let clock = ManualClock::new();
        let core = core_with_mail(shared_memory(&clock), &clock).await;
        let request = v1::SignUpRequest {
            email: "ada@example.com".to_owned(),
            password: "correct horse battery".to_owned(),
            organization_name: "Engines".to_owned(),
            user_agent: None,
        };
        let session = sign_up(&core, None, &request).await.unwrap().session.unwrap();
        let person = sessions::admit(&core.shared, Some(&session.token), None).await.unwrap();
        let send = async || {
            let answer = send_confirmation(&core, &person, &v1::SendConfirmationRequest {}).await;
            answer.err().map(|error| error.api.code)
        };
        for _ in 0..2 {
            for _ in 0..5 {
                assert_eq!(send().await, None);
            }
            assert_eq!(send().await, Some(ErrorCode::RateLimited));
            clock.advance(HOUR_MS);
        }
        assert_eq!(send().await, Some(ErrorCode::RateLimited));
        clock.advance(DAY_MS - 2 * HOUR_MS);
        assert_eq!(send().await, None);
    }
}

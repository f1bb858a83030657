//! `Debug` of messages that hold a secret, which leaves the secret out.

use std::fmt;

use crate::v1;

macro_rules! show {
    ($($message:ident $(by $($field:ident),+)?;)+) => {
        $(impl fmt::Debug for v1::$message {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = formatter.debug_struct(stringify!($message));
                $($(shown.field(stringify!($field), &self.$field);)+)?
                shown.finish_non_exhaustive()
            }
        })+
    };
}

show! {
    AcceptInvitationRequest by email, user_agent;
    AccountServiceCreateKeyResponse by api_key;
    ChangePasswordRequest by user_agent;
    ClaimResponse by delivery_id, webhook_id, attempt, event_id;
    ConfirmEmailRequest;
    CreateInvitationResponse by invitation;
    CreateKeyResponse by api_key;
    CreateResetLinkResponse by expires_at;
    CreateUserResponse by expires_at;
    CreateWebhookResponse by webhook;
    GetLinkRequest;
    NewSession by user, expires_at;
    OpenRequest by session, stream, kind, types, filters, cursor;
    ResetPasswordRequest by user_agent;
    RotateWebhookSecretResponse by webhook;
    SignInRequest by email, user_agent;
    SignUpRequest by email, organization_name, user_agent;
    StreamTicket by expires_at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_shows() {
        let secret = || "a secret".to_owned();
        let shown = [
            format!(
                "{:?}",
                v1::AcceptInvitationRequest { token: secret(), password: Some(secret()), ..Default::default() }
            ),
            format!("{:?}", v1::AccountServiceCreateKeyResponse { key: secret(), ..Default::default() }),
            format!(
                "{:?}",
                v1::ChangePasswordRequest { current_password: secret(), password: secret(), ..Default::default() }
            ),
            format!("{:?}", v1::ClaimResponse { secrets: vec![secret()], ..Default::default() }),
            format!("{:?}", v1::ConfirmEmailRequest { token: secret() }),
            format!("{:?}", v1::CreateInvitationResponse { link: Some(secret()), ..Default::default() }),
            format!("{:?}", v1::CreateKeyResponse { key: secret(), ..Default::default() }),
            format!("{:?}", v1::CreateResetLinkResponse { link: secret(), ..Default::default() }),
            format!("{:?}", v1::CreateUserResponse { link: secret(), ..Default::default() }),
            format!("{:?}", v1::CreateWebhookResponse { secret: secret(), ..Default::default() }),
            format!("{:?}", v1::GetLinkRequest { token: secret() }),
            format!("{:?}", v1::NewSession { token: secret(), device: secret(), ..Default::default() }),
            format!("{:?}", v1::OpenRequest { ticket: Some(secret()), ..Default::default() }),
            format!("{:?}", v1::ResetPasswordRequest { token: secret(), password: secret(), ..Default::default() }),
            format!("{:?}", v1::RotateWebhookSecretResponse { secret: secret(), ..Default::default() }),
            format!("{:?}", v1::SignInRequest { password: secret(), device: Some(secret()), ..Default::default() }),
            format!("{:?}", v1::SignUpRequest { password: secret(), ..Default::default() }),
            format!("{:?}", v1::StreamTicket { ticket: secret(), ..Default::default() }),
        ];
        assert!(shown.iter().all(|text| text.ends_with(" .. }") && !text.contains("a secret")), "{shown:?}");
    }
}

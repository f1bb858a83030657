//! `Debug` of messages that hold a secret, which leaves the secret out. The build script has their table.

use std::fmt;

use crate::v1;

include!(concat!(env!("OUT_DIR"), "/secret.rs"));

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
            format!("{:?}", v1::WebhookHeader { name: "X-Key".to_owned(), value: Some(secret()) }),
        ];
        assert!(shown.iter().all(|text| text.ends_with(" .. }") && !text.contains("a secret")), "{shown:?}");
    }
}

//! Shows messages that hold a secret without it in logs and tests.

use std::fmt;

use crate::v1;

macro_rules! show {
    ($($message:ident by $($field:ident),+;)+) => {
        $(impl fmt::Debug for v1::$message {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = formatter.debug_struct(stringify!($message));
                $(shown.field(stringify!($field), &self.$field);)+
                shown.finish_non_exhaustive()
            }
        })+
    };
}

show! {
    ClaimResponse by delivery_id, webhook_id, attempt, event_id;
    CreateKeyResponse by api_key;
    CreateWebhookResponse by webhook;
    OpenRequest by session, stream, kind, types, filters, cursor;
    RotateWebhookSecretResponse by webhook;
    StreamTicket by expires_at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_shows() {
        let secret = || "a secret".to_owned();
        let shown = [
            format!("{:?}", v1::ClaimResponse { secrets: vec![secret()], ..Default::default() }),
            format!("{:?}", v1::CreateKeyResponse { key: secret(), ..Default::default() }),
            format!("{:?}", v1::CreateWebhookResponse { secret: secret(), ..Default::default() }),
            format!("{:?}", v1::OpenRequest { ticket: Some(secret()), ..Default::default() }),
            format!("{:?}", v1::RotateWebhookSecretResponse { secret: secret(), ..Default::default() }),
            format!("{:?}", v1::StreamTicket { ticket: secret(), ..Default::default() }),
        ];
        assert!(shown.iter().all(|text| text.ends_with(" .. }") && !text.contains("a secret")), "{shown:?}");
    }
}

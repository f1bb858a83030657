//! The `Service-Signature` header.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// `t=<unix seconds>,v1=<hex>` with one `v1` per secret, in their order: the HMAC-SHA256 of `<t>.<body>`.
pub(crate) fn signature(unix_seconds: i64, body: &[u8], secrets: &[String]) -> String {
    let mut header = format!("t={unix_seconds}");
    let signed = format!("{unix_seconds}.");
    for secret in secrets {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("an HMAC key may have any length");
        mac.update(signed.as_bytes());
        mac.update(body);
        // Writing to a string cannot fail.
        let _ = write!(header, ",v1={}", hex::encode(mac.finalize().into_bytes()));
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"id":"evt_1","object":"event"}"#;
    const NEW: &str = "acc43e3edcf1ee02ec44d5ccb60d186878734a28089cf564180bd1c0bdd36a79";
    const OLD: &str = "146a5751b92ec9fd50121cc19743e6e00519dcb0f63ffbf5a624e1146e524fa6";

    #[test]
    fn signs_time_and_body() {
        assert_eq!(signature(1_767_225_600, BODY, &["whsec_new".into()]), format!("t=1767225600,v1={NEW}"));
    }

    #[test]
    fn signs_with_each_secret_in_order() {
        let secrets = ["whsec_new".into(), "whsec_old".into()];
        assert_eq!(signature(1_767_225_600, BODY, &secrets), format!("t=1767225600,v1={NEW},v1={OLD}"));
    }
}

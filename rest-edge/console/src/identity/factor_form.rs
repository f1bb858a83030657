//! The forms that prove a second factor: at a sign-in, and to confirm a session.

use bytes::Bytes;
use serde::Deserialize;
use thesis_proto::v1;
use tonic::Status;

use crate::visit::Visit;

/// A proof as the forms send it. A browser's script writes the fields of a passkey in hex.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ProofForm {
    pub(super) password: Option<String>,
    pub(super) challenge: Option<String>,
    /// The path to open afterwards.
    pub(super) next: String,
    code: Option<String>,
    recovery_code: Option<String>,
    credential_id: Option<String>,
    client_data: String,
    authenticator_data: String,
    signature: String,
}

/// The bytes of a text in hex; empty if it is no hex. Core refuses an empty field.
pub(super) fn bytes(text: &str) -> Bytes {
    hex::decode(text).unwrap_or_default().into()
}

impl ProofForm {
    pub(super) fn proof(&self) -> v1::FactorProof {
        let passkey = self.credential_id.as_ref().map(|id| v1::PasskeyAssertion {
            credential_id: bytes(id),
            client_data: bytes(&self.client_data),
            authenticator_data: bytes(&self.authenticator_data),
            signature: bytes(&self.signature),
        });
        v1::FactorProof { code: self.code.clone(), recovery_code: self.recovery_code.clone(), passkey }
    }
}

/// The factors that can prove a challenge.
#[derive(Default)]
pub(super) struct FactorChoice {
    pub(super) challenge: String,
    pub(super) totp: bool,
    pub(super) recovery_codes: bool,
    pub(super) host: String,
    /// The ids of passkeys in hex, separated by commas.
    pub(super) passkeys: String,
}

impl FactorChoice {
    /// Reads which factors a challenge accepts. An empty challenge accepts none.
    pub(super) async fn find(visit: &Visit, challenge: String) -> Result<Self, Status> {
        if challenge.is_empty() {
            return Ok(Self::default());
        }
        let request = visit.anonymous(v1::GetFactorChallengeRequest { challenge: challenge.clone() });
        let found = visit.core().accounts.get_factor_challenge(request).await?.into_inner();
        let passkeys = found.passkeys.iter().map(hex::encode).collect::<Vec<_>>().join(",");
        let v1::GetFactorChallengeResponse { totp, recovery_codes, host, .. } = found;
        Ok(Self { challenge, totp, recovery_codes, host, passkeys })
    }
}

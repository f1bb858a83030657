//! What the handlers of routes work with.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use thesis_net::{
    clock::{IdSource, SharedIdSource},
    services::Services,
};
use thesis_streams::Hub;

use crate::{answer::Envelopes, description::Description};

/// What all handlers share.
pub(crate) struct Context {
    /// Core's services.
    pub(crate) core: Services,
    /// Open streams.
    pub(crate) hub: Arc<Hub>,
    /// Writes error envelopes.
    pub(crate) errors: Envelopes,
    /// The discovery document.
    pub(crate) discovery: Bytes,
    /// The description of the API.
    pub(crate) openapi: Description,
    /// Randomness.
    pub(crate) ids: SharedIdSource,
}

impl Context {
    /// A new request id: `req_` and 24 hexadecimal digits.
    pub(crate) fn request_id(&self) -> HeaderValue {
        request_id(self.ids.as_ref())
    }
}

/// Bytes of randomness in a request id.
pub(crate) const ID_BYTES: usize = 12;

/// A new request id.
pub(crate) fn request_id(ids: &dyn IdSource) -> HeaderValue {
    let mut random = [0; ID_BYTES];
    ids.fill(&mut random);
    id_of(&random)
}

/// The request id of random bytes.
pub(crate) fn id_of(random: &[u8; ID_BYTES]) -> HeaderValue {
    let mut text = *b"req_000000000000000000000000";
    hex::encode_to_slice(random, &mut text[4..]).expect("two digits a byte");
    HeaderValue::from_bytes(&text).expect("digits are printable")
}

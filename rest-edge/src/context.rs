//! The state that all handlers of routes share.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use thesis_net::{
    clock::{IdSource, SharedIdSource},
    services::Services,
};
use thesis_streams::Hub;

use crate::{answer::Envelopes, description::Description};

pub(crate) struct Context {
    pub(crate) core: Services,
    pub(crate) hub: Arc<Hub>,
    pub(crate) errors: Envelopes,
    pub(crate) discovery: Bytes,
    pub(crate) openapi: Description,
    pub(crate) asyncapi: Description,
    pub(crate) ids: SharedIdSource,
}

impl Context {
    pub(crate) fn request_id(&self) -> HeaderValue {
        request_id(self.ids.as_ref())
    }
}

/// Number of random bytes in a request id.
pub(crate) const ID_BYTES: usize = 12;

pub(crate) fn request_id(ids: &dyn IdSource) -> HeaderValue {
    let mut random = [0; ID_BYTES];
    ids.fill(&mut random);
    id_of(&random)
}

/// Formats random bytes as a request id: `req_` and 24 hexadecimal digits.
pub(crate) fn id_of(random: &[u8; ID_BYTES]) -> HeaderValue {
    let mut text = *b"req_000000000000000000000000";
    hex::encode_to_slice(random, &mut text[4..]).expect("two digits a byte");
    HeaderValue::from_bytes(&text).expect("digits are printable")
}

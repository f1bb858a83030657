//! Requests of a client and of a role.

use thesis_proto::metadata::{AUTHORIZATION, IDEMPOTENCY_KEY, SERVICE_TOKEN as SERVICE_TOKEN_NAME};
use tonic::Request;

use crate::testing::{SERVICE_TOKEN, TEST_KEY};

pub(super) fn public<M>(message: M, key: Option<&str>) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {TEST_KEY}").parse().unwrap());
    if let Some(key) = key {
        request.metadata_mut().insert(IDEMPOTENCY_KEY, key.parse().unwrap());
    }
    request
}

pub(super) fn service<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(SERVICE_TOKEN_NAME, SERVICE_TOKEN.parse().unwrap());
    request
}

//! Requests of a client, of a role and of a person.

use thesis_proto::metadata::{
    AUTHORIZATION, CLIENT_ADDRESS, IDEMPOTENCY_KEY, SERVICE_TOKEN as SERVICE_TOKEN_NAME, SESSION,
};
use tonic::Request;

use crate::tests::harness::{SERVICE_TOKEN, TEST_KEY};

pub(super) fn public<M>(message: M, key: Option<&str>) -> Request<M> {
    with_key(message, TEST_KEY, key)
}

/// A request with this API key, and with an idempotency key if it has one.
pub(super) fn with_key<M>(message: M, api_key: &str, key: Option<&str>) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {api_key}").parse().unwrap());
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

/// A request of a person, with their session if they have one.
pub(super) fn person<M>(message: M, session: Option<&str>) -> Request<M> {
    let mut request = service(message);
    request.metadata_mut().insert(CLIENT_ADDRESS, "10.0.0.1".parse().unwrap());
    if let Some(session) = session {
        request.metadata_mut().insert(SESSION, session.parse().unwrap());
    }
    request
}

//! One request on its way to core.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION, request::Parts};
use parking_lot::Mutex;
use thesis_net::{services::Trusted, trace::Trace};
use thesis_proto::{
    error::{ErrorCode, FieldError},
    metadata,
};
use tonic::{Request, metadata::MetadataMap};

use crate::{
    answer::Failure,
    input::{JsonBody, Param, QueryString},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(metadata::IDEMPOTENCY_KEY);

/// The parts that a route's requests may have.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// The query parameters.
    pub(crate) query: &'static [Param],
    /// The fields of the JSON body, if there is one.
    pub(crate) body: Option<&'static [Param]>,
    /// Whether there may be an idempotency key.
    pub(crate) repeatable: bool,
}

/// A request whose route is known.
pub(crate) struct Call {
    /// The declared form of its route's requests.
    pub(crate) form: Form,
    /// Its head.
    pub(crate) head: Parts,
    /// The path's parameter, decoded.
    pub(crate) id: String,
    /// The body; empty unless the route takes one.
    pub(crate) body: Bytes,
    /// The client's address and the request's id.
    pub(crate) origin: Origin,
    /// Fields that could not be read; core refuses the request, and says what is wrong with the others.
    pub(crate) unread: Mutex<Vec<FieldError>>,
}

/// What the edge tells core about a request.
pub(crate) struct Origin {
    pub(crate) client_address: IpAddr,
    pub(crate) request_id: HeaderValue,
    /// Where the request stands in its trace.
    pub(crate) trace: Trace,
}

impl Call {
    /// The request to core with this request's metadata.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut headers = HeaderMap::with_capacity(4);
        if let Some(value) = self.head.headers.get(&AUTHORIZATION) {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if let Ok(Some(key)) = self.idempotency_key() {
            headers.insert(IDEMPOTENCY_KEY, key.clone());
        }
        let mut extensions = http::Extensions::new();
        extensions.insert(Trusted {
            client_address: Some(self.origin.client_address),
            request_id: Some(self.origin.request_id.clone()),
            trace: Some(self.origin.trace),
            malformed: !self.unread.lock().is_empty(),
            member: None,
        });
        Request::from_parts(MetadataMap::from_headers(headers), extensions, message)
    }

    /// Notes fields that could not be read, if any.
    pub(crate) fn add_unread(&self, unread: Vec<FieldError>) {
        self.unread.lock().extend(unread);
    }

    /// The query's parameters, read as the route declares them.
    pub(crate) fn query(&self) -> Result<QueryString<'_>, Failure> {
        QueryString::read(self.form.query, self.head.uri.query().unwrap_or_default())
    }

    /// The body's fields, read as the route declares them.
    pub(crate) fn fields(&self) -> Result<JsonBody, Failure> {
        JsonBody::read(self.form.body.unwrap_or_default(), &self.head.headers, &self.body)
    }

    /// The idempotency key of a request that may carry one.
    pub(crate) fn idempotency_key(&self) -> Result<Option<&HeaderValue>, Failure> {
        if !self.form.repeatable {
            return Ok(None);
        }
        let mut values = self.head.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = values.next() else {
            return Ok(None);
        };
        let printable = key.as_bytes().iter().all(|byte| (0x20..0x7f).contains(byte));
        if values.next().is_some() || !printable || !(1..=255).contains(&key.len()) {
            let message = "Idempotency-Key must be one value of 1 to 255 printable characters";
            return Err(Failure::shape(ErrorCode::InvalidRequest, message));
        }
        Ok(Some(key))
    }
}

//! One request of a known route, on its way to core.

use std::{borrow::Cow, net::IpAddr};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION, request::Parts};
use parking_lot::Mutex;
use thesis_net::{
    services::{RequestLine, Trusted},
    trace::Trace,
};
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

/// The parts of a request that its route declares.
#[derive(Clone, Copy)]
pub(crate) struct RequestForm {
    pub(crate) query: &'static [Param],
    pub(crate) body: Option<&'static [Param]>,
    /// True if the request may carry an idempotency key.
    pub(crate) repeatable: bool,
    /// The path, with the names of its parameters.
    pub(crate) path: &'static str,
    /// The status of success.
    pub(crate) status: u16,
}

pub(crate) struct Call {
    pub(crate) form: RequestForm,
    pub(crate) head: Parts,
    /// The decoded path parameter.
    pub(crate) id: String,
    /// Empty unless the route takes a body.
    pub(crate) body: Bytes,
    pub(crate) origin: RequestOrigin,
    /// Fields that the edge could not read. Core refuses the request and reports the faults of the other fields.
    pub(crate) unread: Mutex<Vec<FieldError>>,
}

/// The origin of a request, which the edge sends to core as metadata.
pub(crate) struct RequestOrigin {
    pub(crate) client_address: IpAddr,
    pub(crate) request_id: HeaderValue,
    pub(crate) trace: Trace,
}

impl Call {
    /// Wraps a message into a request to core with this request's metadata.
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
            renders: true,
            line: Some(RequestLine {
                method: self.head.method.clone(),
                route: Cow::Borrowed(self.form.path),
                uri: self.head.uri.clone(),
                status: self.form.status,
            }),
        });
        Request::from_parts(MetadataMap::from_headers(headers), extensions, message)
    }

    pub(crate) fn add_unread(&self, unread: Vec<FieldError>) {
        self.unread.lock().extend(unread);
    }

    /// Reads the query as the route declares it.
    pub(crate) fn query(&self) -> Result<QueryString<'_>, Failure> {
        QueryString::read(self.form.query, self.head.uri.query().unwrap_or_default())
    }

    /// Reads the body as the route declares it.
    pub(crate) fn fields(&self) -> Result<JsonBody, Failure> {
        JsonBody::read(self.form.body.unwrap_or_default(), &self.head.headers, &self.body)
    }

    /// The idempotency key, if the route allows one.
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

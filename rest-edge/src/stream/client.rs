//! The client of a WebSocket.

use std::{net::IpAddr, sync::Arc};

use http::HeaderValue;
use thesis_net::{clock::SharedIdSource, services::Trusted, trace::Trace};
use thesis_proto::v1;
use thesis_streams::Hub;
use tonic::Request as Asking;

use crate::{answer::Envelopes, call::Call, context::Context};

/// The data of a socket about its client and its edge.
pub(super) struct Client {
    pub(super) hub: Arc<Hub>,
    pub(super) errors: Envelopes,
    ids: SharedIdSource,
    address: IpAddr,
    /// The id of the request that opened the socket, and of the connection.
    pub(super) id: HeaderValue,
    /// The trace that opened the stream. Its later calls are not sampled, because a connection may last for days.
    trace: Trace,
}

impl Client {
    pub(super) fn new(edge: &Context, call: &Call) -> Self {
        let (hub, errors, ids) = (Arc::clone(&edge.hub), edge.errors.clone(), Arc::clone(&edge.ids));
        let (address, id) = (call.origin.client_address, call.origin.request_id.clone());
        Self { hub, errors, ids, address, id, trace: Trace { sampled: false, ..call.origin.trace } }
    }

    /// A request to core for this client, with a new request id.
    pub(super) fn request(&self, message: v1::OpenRequest) -> (Asking<v1::OpenRequest>, String) {
        let id = crate::context::request_id(self.ids.as_ref());
        let text = id.to_str().unwrap_or_default().to_owned();
        let mut request = Asking::new(message);
        let (client_address, trace) = (Some(self.address), Some(self.trace));
        let trusted = Trusted { client_address, request_id: Some(id), trace, ..Trusted::default() };
        request.extensions_mut().insert(trusted);
        (request, text)
    }

    pub(super) fn request_id(&self) -> String {
        crate::context::request_id(self.ids.as_ref()).to_str().unwrap_or_default().to_owned()
    }
}

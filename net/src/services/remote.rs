//! The adapter that implements core's service traits over the generated clients.

use futures::StreamExt as _;
use http::HeaderValue;
use secrecy::ExposeSecret as _;
use thesis_proto::{
    metadata::{
        CLIENT_ADDRESS, ENVIRONMENT, LIVE, MALFORMED, PROJECT, REQUEST_ID, REQUEST_LINE, SERVICE_TOKEN, SESSION, TEST,
    },
    v1,
};
use tonic::{Request, Response, Status, async_trait, body::Body, metadata::MetadataMap};
use tower::util::BoxCloneSyncService;

use super::{MemberSession, Stream, Trusted};
use crate::trace::TRACEPARENT;

/// Maximum bytes of a response of core: a full page of the longest theses takes some megabytes.
const MAX_ANSWER: usize = 32 * 1024 * 1024;

/// A way to a core that the generated clients can use.
type Channel = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

/// The services of a core in another process.
pub(super) struct Remote {
    pub(super) channel: Channel,
    pub(super) credential: HeaderValue,
}

impl Remote {
    /// Turns the request's `Trusted` facts into metadata beside the credential.
    fn outward<T>(&self, request: Request<T>) -> Request<T> {
        let (metadata, mut extensions, message) = request.into_parts();
        let trusted = extensions.remove::<Trusted>().unwrap_or_default();
        let mut headers = metadata.into_headers();
        headers.insert(SERVICE_TOKEN, self.credential.clone());
        if let Some(address) = trusted.client_address {
            let address = HeaderValue::try_from(address.to_string()).expect("an address is printable");
            headers.insert(CLIENT_ADDRESS, address);
        }
        if let Some(request_id) = trusted.request_id {
            headers.insert(REQUEST_ID, request_id);
        }
        if let Some(trace) = trusted.trace {
            let trace = HeaderValue::try_from(trace.header()).expect("digits and dashes are printable");
            headers.insert(TRACEPARENT, trace);
        }
        if trusted.malformed {
            headers.insert(MALFORMED, HeaderValue::from_static("true"));
        }
        if let Some(line) = trusted.line
            && let Ok(mut line) = HeaderValue::try_from(line.to_text())
        {
            // The query may hold a ticket.
            line.set_sensitive(true);
            headers.insert(REQUEST_LINE, line);
        }
        if let Some(MemberSession { token, project_id, live }) = trusted.member {
            // A text that cannot travel in a header is no valid token or project.
            let value = |text: &str| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
            let mut token = value(token.expose_secret());
            token.set_sensitive(true);
            headers.insert(SESSION, token);
            headers.insert(PROJECT, value(&project_id));
            headers.insert(ENVIRONMENT, HeaderValue::from_static(if live { LIVE } else { TEST }));
        }
        Request::from_parts(MetadataMap::from_headers(headers), extensions, message)
    }
}

/// Implements a service by its client.
macro_rules! remote {
    ($server:ident $service:ident $clients:ident $client:ident {
        $($method:ident: $request:ident -> $response:ident;)*
    } streaming {
        $($streaming:ident: $first:ident -> $messages:ident as $stream:ident;)*
    }) => {
        #[async_trait]
        impl v1::$server::$service for Remote {
            $(async fn $method(
                &self,
                request: Request<v1::$request>,
            ) -> Result<Response<v1::$response>, Status> {
                let client = v1::$clients::$client::new(self.channel.clone());
                let mut client = client.max_decoding_message_size(MAX_ANSWER);
                client.$method(self.outward(request)).await
            })*
            $(type $stream = Stream<v1::$messages>;
            async fn $streaming(
                &self,
                request: Request<v1::$first>,
            ) -> Result<Response<Self::$stream>, Status> {
                let client = v1::$clients::$client::new(self.channel.clone());
                let mut client = client.max_decoding_message_size(MAX_ANSWER);
                let response = client.$streaming(self.outward(request)).await?;
                Ok(response.map(|messages| messages.boxed()))
            })*
        }
    };
}

thesis_proto::every_service!(remote);

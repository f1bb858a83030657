//! Reflection: everybody can list the public services, and callers with the service credential can list all.

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
};

use http::Request;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use thesis_proto::{
    descriptors::{FILES, methods},
    metadata::SERVICE_TOKEN,
};
use tonic::{body::Body, server::NamedService, service::Routes};
use tonic_reflection::server::{Builder, Error};
use tower::Service;

use crate::service::Core;

/// The services for callers with a key.
const PUBLIC: [&str; 12] = [
    "MetaService",
    "ProfileService",
    "ThesisService",
    "TokenService",
    "SearchService",
    "EventService",
    "TestDataService",
    "AlertService",
    "WebhookService",
    "LogService",
    "ArchiveService",
    "StatusService",
];

/// Byte limit of a request, which names a file or a symbol.
const MAX_REQUEST: usize = 4 * 1024;

/// The prefix of each name of the contract.
const PACKAGE: &str = "thesis.v1.";

static STREAMS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let streaming = methods().filter(|(_, method)| method.server_streaming());
    streaming.map(|(service, method)| format!("/{service}/{}", method.name())).collect()
});

/// True if a path names a method with a response stream.
pub(super) fn streams(path: &str) -> bool {
    STREAMS.contains(path)
}

/// True if a service of the contract is for the roles alone, by its full name.
pub(super) fn is_internal(service: &str) -> bool {
    service.strip_prefix(PACKAGE).is_some_and(|name| !PUBLIC.contains(&name))
}

/// Adds both versions of reflection.
pub(super) fn add(routes: Routes, core: &Arc<Core>) -> Result<Routes, Error> {
    let is_public = |file: &&FileDescriptorProto| file.service.iter().all(|service| PUBLIC.contains(&service.name()));
    let public = FileDescriptorSet { file: FILES.file.iter().filter(is_public).cloned().collect() };
    let builder = |files: &FileDescriptorSet| {
        Builder::configure()
            .register_file_descriptor_set(files.clone())
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    macro_rules! both {
        ($build:ident) => {
            ByCredential {
                core: Arc::clone(core),
                public: builder(&public).$build()?.max_decoding_message_size(MAX_REQUEST),
                all: builder(&FILES).$build()?.max_decoding_message_size(MAX_REQUEST),
            }
        };
    }
    Ok(routes.add_service(both!(build_v1)).add_service(both!(build_v1alpha)))
}

/// Two versions of a service: one for everybody, and one for callers with the service credential.
#[derive(Clone)]
struct ByCredential<S> {
    core: Arc<Core>,
    public: S,
    all: S,
}

impl<S: NamedService> NamedService for ByCredential<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<Request<Body>, Error = Infallible>> Service<Request<Body>> for ByCredential<S> {
    type Response = S::Response;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let _ready = self.public.poll_ready(context)?;
        self.all.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        let token = request.headers().get(SERVICE_TOKEN).and_then(|token| token.to_str().ok());
        if self.core.gate.is_service(token) { self.all.call(request) } else { self.public.call(request) }
    }
}

//! The client of core's operators' service.

use secrecy::ExposeSecret as _;
use thesis_net::channel::CoreChannel;
use thesis_proto::{metadata, v1::admin_service_client::AdminServiceClient};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
};

use crate::{
    config::{Refused, Settings},
    secrets,
};

/// A client that shows the service token.
pub(crate) type Client = AdminServiceClient<InterceptedService<CoreChannel, Credential>>;

/// Adds the service token to each call.
#[derive(Clone)]
pub(crate) struct Credential(MetadataValue<Ascii>);

impl Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(metadata::SERVICE_TOKEN, self.0.clone());
        Ok(request)
    }
}

/// A client over a channel, with the token from the settings.
pub(crate) fn client(channel: CoreChannel, settings: &Settings) -> Result<Client, Refused> {
    let token = secrets::service_token(&settings.keys, &settings.store.data_dir)?;
    let token = MetadataValue::try_from(token.expose_secret());
    let mut token = token.map_err(|error| Refused::new("SVC_SERVICE_TOKEN", error))?;
    token.set_sensitive(true);
    Ok(AdminServiceClient::with_interceptor(channel, Credential(token)))
}

//! Calls to the core of a measured service, by gRPC with the credential of the roles.

use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::{
    metadata,
    time::from_millis,
    v1::{
        self, account_service_client::AccountServiceClient, admin_service_client::AdminServiceClient,
        ingest_service_client::IngestServiceClient, observation::Observed,
    },
};
use tonic::{
    Request, Status,
    metadata::MetadataValue,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::{
    Failure,
    mark::text,
    process::{SERVICE_TOKEN, Service},
};

/// Tokens that the observed theses are about.
const TOKENS: u64 = 20;

/// A connection that shows the credential.
type Trusted = InterceptedService<Channel, fn(Request<()>) -> Result<Request<()>, Status>>;

/// The operators' commands.
pub(crate) type Operator = AdminServiceClient<Trusted>;

/// What people do themselves.
pub(crate) type Accounts = AccountServiceClient<Trusted>;

/// What an upstream's connector brings.
pub(crate) type Ingest = IngestServiceClient<Trusted>;

/// Operates a service.
pub(crate) async fn operator(service: &Service) -> Result<Operator, Failure> {
    let operator: Operator = AdminServiceClient::with_interceptor(channel(service).await?, credential);
    Ok(operator)
}

/// Speaks for people to a service.
pub(crate) async fn accounts(service: &Service) -> Result<Accounts, Failure> {
    let accounts: Accounts = AccountServiceClient::with_interceptor(channel(service).await?, credential);
    Ok(accounts)
}

/// Brings observations to a service.
pub(crate) async fn ingest(service: &Service) -> Result<Ingest, Failure> {
    let ingest: Ingest = IngestServiceClient::with_interceptor(channel(service).await?, credential);
    Ok(ingest)
}

/// A new thesis as seen upstream, of one author, on a token that changes with the number.
pub(crate) fn thesis(number: u64) -> v1::Observation {
    thesis_on(number % TOKENS, number)
}

/// A new thesis on one of the tokens.
pub(crate) fn thesis_on(token: u64, number: u64) -> v1::Observation {
    let profile = v1::ProfileObservation {
        upstream_user_id: "benchmark".to_owned(),
        handle: "benchmark".to_owned(),
        ..v1::ProfileObservation::default()
    };
    let token = v1::TokenObservation {
        chain: "solana".to_owned(),
        address: format!("Benchmark{token}"),
        symbol: format!("WANTED{token}"),
        ..v1::TokenObservation::default()
    };
    let thesis = v1::ThesisObservation {
        upstream_id: upstream_id(number),
        profile: Some(profile),
        token: Some(token),
        text: text(),
        created_at: Some(from_millis(SystemClock.now_ms())),
        ..v1::ThesisObservation::default()
    };
    observation(Observed::Thesis(thesis))
}

/// The deletion of a thesis as seen upstream.
pub(crate) fn deletion(number: u64) -> v1::Observation {
    observation(Observed::Deletion(v1::DeletionObservation { upstream_id: upstream_id(number) }))
}

fn upstream_id(number: u64) -> String {
    format!("benchmark-{number}")
}

fn observation(observed: Observed) -> v1::Observation {
    let observed_at = Some(from_millis(SystemClock.now_ms()));
    v1::Observation { observed_at, revision: None, observed: Some(observed) }
}

/// Adds the credential of the roles to a call.
fn credential(mut request: Request<()>) -> Result<Request<()>, Status> {
    request.metadata_mut().insert(metadata::SERVICE_TOKEN, MetadataValue::from_static(SERVICE_TOKEN));
    Ok(request)
}

/// A connection to the service's core.
async fn channel(service: &Service) -> Result<Channel, Failure> {
    let url = format!("http://{}", service.address("grpc")?);
    Ok(Endpoint::from_shared(url)?.tcp_nodelay(true).connect().await?)
}

//! API keys of projects.

use clap::{Subcommand, ValueEnum};
use prost_types::Timestamp;
use serde_json::json;
use thesis_proto::{
    names::environment_name,
    v1::{self, ApiKey, CreateKeyRequest, ListKeysRequest, RevokeKeyRequest},
};
use tonic::Status;

use super::{
    Client, moment, one,
    output::{CommandOutput, Resource, time},
    part,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Environment {
    /// The sandbox and the project's own test data
    Test,
    /// Live data
    Live,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a key; it is shown this once
    Create {
        /// Id of its project
        #[arg(long)]
        project: String,
        /// What it reads
        #[arg(long)]
        environment: Environment,
        /// Its name
        #[arg(long)]
        name: String,
        /// A scope, such as theses:read; may be repeated [default: those that a key gets without asking]
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// When it ends, such as 2031-01-01T00:00:00Z [default: never]
        #[arg(long, value_name = "TIME", value_parser = moment)]
        expires_at: Option<Timestamp>,
        /// A network from which it may be sent, such as 192.0.2.0/24; may be repeated [default: anywhere]
        #[arg(long = "allow", value_name = "NETWORK")]
        allowed_addresses: Vec<String>,
    },
    /// List a project's keys
    List {
        /// Id of the project
        #[arg(long)]
        project: String,
    },
    /// Revoke a key
    Revoke {
        /// Its id
        key: String,
    },
}

impl From<ApiKey> for Resource {
    fn from(key: ApiKey) -> Self {
        Self(vec![
            ("object", json!("api_key")),
            ("id", json!(key.id)),
            ("name", json!(key.name)),
            ("prefix", json!(key.prefix)),
            ("environment", json!(environment_name(key.environment()))),
            ("scopes", json!(key.scopes)),
            ("project_id", json!(key.project_id)),
            ("created_at", time(key.created_at.as_ref())),
            ("expires_at", time(key.expires_at.as_ref())),
            ("revoked_at", time(key.revoked_at.as_ref())),
            ("allowed_addresses", json!(key.allowed_addresses)),
        ])
    }
}

/// A key in a list, which also has the time of its last use.
fn listed(key: ApiKey) -> Resource {
    let last_used_at = time(key.last_used_at.as_ref());
    let mut resource = Resource::from(key);
    resource.0.push(("last_used_at", last_used_at));
    resource
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    match command {
        Command::Create { project, environment, name, scopes, expires_at, allowed_addresses } => {
            let environment = match environment {
                Environment::Test => v1::Environment::Test,
                Environment::Live => v1::Environment::Live,
            };
            let (project_id, environment) = (project, environment.into());
            let request = CreateKeyRequest { project_id, environment, name, scopes, expires_at, allowed_addresses };
            let response = client.create_key(request).await?.into_inner();
            let mut resource = Resource::from(part(response.api_key)?);
            resource.0.push(("key", json!(response.key)));
            Ok(CommandOutput::One(resource))
        }
        Command::List { project } => {
            let keys = client.list_keys(ListKeysRequest { project_id: project }).await?.into_inner().data;
            Ok(CommandOutput::List(keys.into_iter().map(listed).collect()))
        }
        Command::Revoke { key } => one(client.revoke_key(RevokeKeyRequest { id: key }).await?.into_inner().api_key),
    }
}

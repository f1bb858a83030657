//! Customers and their plans.

use clap::Subcommand;
use serde_json::json;
use thesis_proto::v1::{CreateOrganizationRequest, ListOrganizationsRequest, Organization, SetOrganizationPlanRequest};
use tonic::Status;

use super::{
    Client, one,
    output::{CommandOutput, Resource, time},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an organization
    Create {
        /// Its name
        #[arg(long)]
        name: String,
        /// Its plan [default: free]
        #[arg(long)]
        plan: Option<String>,
    },
    /// List all organizations
    List,
    /// Change an organization's plan
    SetPlan {
        /// Its id
        organization: String,
        /// The plan's name
        plan: String,
    },
}

impl From<Organization> for Resource {
    fn from(organization: Organization) -> Self {
        Self(vec![
            ("object", json!("organization")),
            ("id", json!(organization.id)),
            ("name", json!(organization.name)),
            ("plan", json!(organization.plan)),
            ("created_at", time(organization.created_at.as_ref())),
        ])
    }
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    match command {
        Command::Create { name, plan } => {
            let request = CreateOrganizationRequest { name, plan };
            one(client.create_organization(request).await?.into_inner().organization)
        }
        Command::List => {
            let response = client.list_organizations(ListOrganizationsRequest {}).await?;
            Ok(CommandOutput::list(response.into_inner().data))
        }
        Command::SetPlan { organization, plan } => {
            let request = SetOrganizationPlanRequest { id: organization, plan };
            one(client.set_organization_plan(request).await?.into_inner().organization)
        }
    }
}

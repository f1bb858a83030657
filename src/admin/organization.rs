//! Customers and their plans.

use clap::Subcommand;
use thesis_proto::v1::{CreateOrganizationRequest, ListOrganizationsRequest, SetOrganizationPlanRequest};
use tonic::Status;

use super::{Client, one, output::CommandOutput};

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

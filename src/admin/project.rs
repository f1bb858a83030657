//! Projects of organizations.

use clap::Subcommand;
use thesis_proto::v1::{
    ApproveProjectRequest, ArchiveProjectRequest, CreateProjectRequest, ListProjectsRequest, RefuseProjectRequest,
    WithdrawProjectRequest,
};
use tonic::Status;

use super::{Client, one, output::CommandOutput};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a project
    Create {
        /// Id of its organization
        #[arg(long)]
        organization: String,
        /// Its name
        #[arg(long)]
        name: String,
    },
    /// List projects
    List {
        /// Only those of this organization
        #[arg(long)]
        organization: Option<String>,
    },
    /// Let a project's live keys work
    Approve {
        /// Its id
        project: String,
    },
    /// Refuse the live access that a project asked for
    Refuse {
        /// Its id
        project: String,
        /// Why, for its organization to read
        #[arg(long)]
        reason: String,
    },
    /// Withdraw live access
    Withdraw {
        /// Its id
        project: String,
        /// Why, for its organization to read
        #[arg(long)]
        reason: Option<String>,
    },
    /// Archive a project: its keys end for good
    Archive {
        /// Its id
        project: String,
    },
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    match command {
        Command::Create { organization, name } => {
            let request = CreateProjectRequest { organization_id: organization, name };
            one(client.create_project(request).await?.into_inner().project)
        }
        Command::List { organization } => {
            let request = ListProjectsRequest { organization_id: organization };
            Ok(CommandOutput::list(client.list_projects(request).await?.into_inner().data))
        }
        Command::Approve { project } => {
            one(client.approve_project(ApproveProjectRequest { id: project }).await?.into_inner().project)
        }
        Command::Refuse { project, reason } => {
            let request = RefuseProjectRequest { id: project, reason };
            one(client.refuse_project(request).await?.into_inner().project)
        }
        Command::Withdraw { project, reason } => {
            let request = WithdrawProjectRequest { id: project, reason };
            one(client.withdraw_project(request).await?.into_inner().project)
        }
        Command::Archive { project } => {
            one(client.archive_project(ArchiveProjectRequest { id: project }).await?.into_inner().project)
        }
    }
}

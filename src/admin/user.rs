//! People who can sign in.

use clap::Subcommand;
use prost_types::Timestamp;
use serde_json::{Value, json};
use thesis_proto::v1::{
    ConfirmUserRequest, CreateResetLinkRequest, CreateResetLinkResponse, CreateUserRequest, ListUsersRequest,
    RemoveSecondFactorsRequest, SetAdministratorRequest,
};
use tonic::Status;

use super::{
    Client, one,
    output::{CommandOutput, Resource, time},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Invite somebody: prints a link to set a password, which is also sent where mail is
    Create {
        /// Their e-mail
        #[arg(long)]
        email: String,
        /// They also run this installation
        #[arg(long)]
        administrator: bool,
    },
    /// List all users by e-mail
    List,
    /// Let a user run this installation
    MakeAdministrator {
        /// Their e-mail
        email: String,
    },
    /// Confirm the e-mail of a user, as the link in their mail does
    Confirm {
        /// Their e-mail
        email: String,
    },
    /// Remove the second factors of a user who has lost them; verify the user's identity first
    RemoveSecondFactors {
        /// Their e-mail
        email: String,
    },
    /// Print a link by which a user sets a new password; the memberships of an unconfirmed user end with it
    ResetLink {
        /// Their e-mail
        email: String,
        /// An unconfirmed user keeps the memberships, which somebody else may have set up
        #[arg(long)]
        keep_memberships: bool,
    },
}

fn link(mut of: Vec<(&'static str, Value)>, link: &str, expires_at: Option<&Timestamp>) -> CommandOutput {
    of.extend([("link", json!(link)), ("expires_at", time(expires_at))]);
    CommandOutput::One(Resource(of))
}

/// The effect of a link on an account whose e-mail is not confirmed; none for others.
fn reset_note(response: &CreateResetLinkResponse) -> Option<&'static str> {
    match (response.email_confirmed, response.ends_memberships) {
        (true, _) => None,
        (false, true) => Some(
            "The e-mail is not confirmed, so somebody else may have signed up with it. With this link the account leaves \
             all its organizations. If they are the person's own, use --keep-memberships.",
        ),
        (false, false) => Some("The e-mail is not confirmed. This link confirms it, and memberships stay."),
    }
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    match command {
        Command::Create { email, administrator } => {
            let request = CreateUserRequest { email: email.clone(), administrator };
            let response = client.create_user(request).await?.into_inner();
            let of = vec![
                ("object", json!("invitation")),
                ("id", json!(response.id)),
                ("email", json!(email)),
                ("administrator", json!(administrator)),
            ];
            Ok(link(of, &response.link, response.expires_at.as_ref()))
        }
        Command::List => Ok(CommandOutput::list(client.list_users(ListUsersRequest {}).await?.into_inner().data)),
        Command::MakeAdministrator { email } => {
            let request = SetAdministratorRequest { email, administrator: true };
            one(client.set_administrator(request).await?.into_inner().user)
        }
        Command::Confirm { email } => one(client.confirm_user(ConfirmUserRequest { email }).await?.into_inner().user),
        Command::RemoveSecondFactors { email } => {
            one(client.remove_second_factors(RemoveSecondFactorsRequest { email }).await?.into_inner().user)
        }
        Command::ResetLink { email, keep_memberships } => {
            let request = CreateResetLinkRequest { email, keep_memberships };
            let response = client.create_reset_link(request).await?.into_inner();
            let of = vec![
                ("email_confirmed", json!(response.email_confirmed)),
                ("ends_memberships", json!(response.ends_memberships)),
                ("note", reset_note(&response).map_or(Value::Null, |note| json!(note))),
            ];
            Ok(link(of, &response.link, response.expires_at.as_ref()))
        }
    }
}

//! People who can sign in.

use clap::Subcommand;
use prost_types::Timestamp;
use serde_json::{Value, json};
use thesis_proto::v1::{
    ConfirmUserRequest, CreateResetLinkRequest, CreateUserRequest, ListUsersRequest, SetAdministratorRequest, User,
};
use tonic::Status;

use super::{
    Client,
    answer::{Answer, Resource, time},
    one,
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
    /// Print a link by which a user sets a new password
    ResetLink {
        /// Their e-mail
        email: String,
    },
}

impl From<User> for Resource {
    fn from(user: User) -> Self {
        Self(vec![
            ("object", json!("user")),
            ("id", json!(user.id)),
            ("email", json!(user.email)),
            ("administrator", json!(user.administrator)),
            ("created_at", time(user.created_at.as_ref())),
            ("email_confirmed_at", time(user.email_confirmed_at.as_ref())),
        ])
    }
}

fn link(mut of: Vec<(&'static str, Value)>, link: &str, expires_at: Option<&Timestamp>) -> Answer {
    of.extend([("link", json!(link)), ("expires_at", time(expires_at))]);
    Answer::One(Resource(of))
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<Answer, Status> {
    match command {
        Command::Create { email, administrator } => {
            let request = CreateUserRequest { email: email.clone(), administrator };
            let answer = client.create_user(request).await?.into_inner();
            let of = vec![
                ("object", json!("invitation")),
                ("id", json!(answer.id)),
                ("email", json!(email)),
                ("administrator", json!(administrator)),
            ];
            Ok(link(of, &answer.link, answer.expires_at.as_ref()))
        }
        Command::List => Ok(Answer::list(client.list_users(ListUsersRequest {}).await?.into_inner().data)),
        Command::MakeAdministrator { email } => {
            let request = SetAdministratorRequest { email, administrator: true };
            one(client.set_administrator(request).await?.into_inner().user)
        }
        Command::Confirm { email } => one(client.confirm_user(ConfirmUserRequest { email }).await?.into_inner().user),
        Command::ResetLink { email } => {
            let answer = client.create_reset_link(CreateResetLinkRequest { email }).await?.into_inner();
            Ok(link(Vec::new(), &answer.link, answer.expires_at.as_ref()))
        }
    }
}

//! Webhooks of projects, and their deliveries.

use clap::{Subcommand, ValueEnum};
use prost_types::Timestamp;
use serde_json::json;
use thesis_proto::{
    json as canonical,
    v1::{DeliveryStatus, ListProjectWebhooksRequest, ReplayWebhookDeliveriesRequest, Webhook},
};
use tonic::Status;

use super::{
    Client,
    output::{CommandOutput, Resource},
    since,
};
use crate::terminal::write_stderr;

/// The fields of a webhook, in the API's order.
const FIELDS: [&str; 14] = [
    "object",
    "id",
    "url",
    "description",
    "events",
    "filters",
    "status",
    "secret_prefix",
    "livemode",
    "created_at",
    "updated_at",
    "headers",
    "payload",
    "public_key",
];

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ended {
    /// The endpoint took it
    Delivered,
    /// It was given up
    Failed,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List a project's webhooks of both environments, newest first
    List {
        /// Id of the project
        #[arg(long)]
        project: String,
    },
    /// Send finished deliveries again, newest first and at most 50 a second
    Replay {
        /// Id of their webhook
        #[arg(long)]
        webhook: String,
        /// Only deliveries created from then on: a time such as 2031-01-01T00:00:00Z, or a span such as 24h
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Timestamp,
        /// Only deliveries that ended so [default: all that ended]
        #[arg(long)]
        status: Option<Ended>,
    },
}

impl From<Webhook> for Resource {
    fn from(webhook: Webhook) -> Self {
        let mut fields = serde_json::to_value(canonical::Webhook::from(&webhook)).expect("texts can be written");
        Self(FIELDS.map(|name| (name, fields[name].take())).into())
    }
}

/// Runs a command. It reports its progress on stderr, unless a program reads its output.
pub(super) async fn run(command: Command, mut client: Client, for_program: bool) -> Result<CommandOutput, Status> {
    match command {
        Command::List { project } => {
            let request = ListProjectWebhooksRequest { project_id: project };
            Ok(CommandOutput::list(client.list_project_webhooks(request).await?.into_inner().data))
        }
        Command::Replay { webhook, since, status } => {
            let status = match status {
                None => DeliveryStatus::Unspecified,
                Some(Ended::Delivered) => DeliveryStatus::Delivered,
                Some(Ended::Failed) => DeliveryStatus::Failed,
            };
            let webhook_id = webhook.clone();
            let request = ReplayWebhookDeliveriesRequest { webhook_id, since: Some(since), status: status.into() };
            let mut stream = client.replay_webhook_deliveries(request).await?.into_inner();
            let (mut looked_at, mut replayed) = (0, 0);
            while let Some(progress) = stream.message().await? {
                (looked_at, replayed) = (progress.looked_at, progress.replayed);
                if progress.done {
                    return Ok(CommandOutput::One(Resource(vec![
                        ("object", json!("webhook_replay")),
                        ("webhook_id", json!(webhook)),
                        ("looked_at", json!(looked_at)),
                        ("replayed", json!(replayed)),
                    ])));
                }
                if !for_program {
                    write_stderr(&format!("looked at {looked_at}, replayed {replayed}\n"));
                }
            }
            let message = format!("it stopped after {looked_at} deliveries, {replayed} of them replayed");
            Err(Status::unavailable(message))
        }
    }
}

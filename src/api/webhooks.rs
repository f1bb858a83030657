//! `api webhooks`: webhooks, their deliveries and secrets.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{
    client::ApiClient,
    output::{Amount, Column, Columns, Output},
    read::given,
};
use crate::{Failure, config::read_time};

const WEBHOOKS: Columns = &[
    Column::whole("created", "/created_at"),
    Column::whole("id", "/id"),
    Column::text("status", "/status"),
    Column::text("events", "/events"),
    Column::text("url", "/url"),
    Column::text("description", "/description"),
];
const DELIVERIES: Columns = &[
    Column::whole("created", "/created_at"),
    Column::text("type", "/event_type"),
    Column::whole("status", "/status"),
    Column::whole("attempt", "/attempt"),
    Column::whole("response", "/response_status"),
    Column::whole("ms", "/latency_ms"),
    Column::whole("id", "/id"),
    Column::whole("event", "/event_id"),
];

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List webhooks, newest first
    List {
        /// Only those in this state: enabled, disabled or disabled_failing
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        #[command(flatten)]
        amount: Amount,
    },
    /// Read a webhook
    Get(Id),
    /// Create a webhook; its secret is shown only this once
    #[command(
        after_help = "Example:\n  trade-thesis api webhooks create --url https://example.com/ --events thesis.created"
    )]
    Create {
        /// Your endpoint
        #[arg(long, value_name = "URL")]
        url: String,
        #[command(flatten)]
        fields: Fields,
    },
    /// Change the given fields of a webhook; its filters are replaced as a whole
    Update {
        #[command(flatten)]
        webhook: Id,
        /// Your endpoint
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// Status: enabled or disabled
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        #[command(flatten)]
        fields: Fields,
    },
    /// Delete a webhook
    Delete(Id),
    /// Send a test event to a webhook
    Test(Id),
    /// Create a new secret for a webhook, which is shown only this once; the old one also signs for 24 hours
    RotateSecret(Id),
    /// Show the state of a webhook's deliveries
    Insight(Id),
    /// List the deliveries of a webhook, newest first
    Deliveries {
        #[command(flatten)]
        webhook: Id,
        /// Only those in this state: pending, delivered, failed or retrying
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only those of the event with this id
        #[arg(long, value_name = "EVENT")]
        event: Option<String>,
        #[command(flatten)]
        amount: Amount,
    },
    /// Send a delivery again
    Replay {
        /// Id of the delivery, del_…
        #[arg(value_name = "DELIVERY")]
        delivery: String,
    },
    /// Send the failed deliveries of a webhook again that ended since a time
    ReplayAll {
        #[command(flatten)]
        webhook: Id,
        /// From this time on: ISO 8601, or a span before now such as 24h
        #[arg(long, value_name = "TIME", value_parser = read_time)]
        since: String,
        /// Send those of this status again: failed or delivered [default: failed]
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
    },
}

impl Command {
    /// True if the output has a secret, which no other command shows again.
    pub(super) const fn shows_secret(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::RotateSecret(_))
    }
}

#[derive(Debug, Args)]
pub(super) struct Id {
    /// Id of the webhook, wh_…
    #[arg(value_name = "WEBHOOK")]
    id: String,
}

#[derive(Debug, Args)]
pub(super) struct Fields {
    /// Types of events to deliver, such as thesis.created
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',')]
    events: Vec<String>,
    /// Only events of these tokens
    #[arg(long, value_name = "TOKEN,…", value_delimiter = ',')]
    token: Vec<String>,
    /// Only events of these handles
    #[arg(long, value_name = "HANDLE,…", value_delimiter = ',')]
    handle: Vec<String>,
    /// Only events of these chains
    #[arg(long, value_name = "CHAIN,…", value_delimiter = ',')]
    chain: Vec<String>,
    /// Only theses with these words, in the search syntax; repeat it for alternatives
    #[arg(long, value_name = "SEARCH")]
    text: Vec<String>,
    /// Description, for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Header to send with each attempt, such as "X-Team: desk"; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Payload of deliveries: full or thin
    #[arg(long, value_name = "PAYLOAD")]
    payload: Option<String>,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Fields {
    /// The body of a request, with the given fields only.
    fn body(self, url: Option<String>, status: Option<String>) -> Value {
        let lists = [("token", self.token), ("handle", self.handle), ("chain", self.chain), ("text", self.text)];
        let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
        let filters: Map<String, Value> = lists.map(|(name, values)| (name.to_owned(), json!(values))).collect();
        let headers: Map<String, Value> = self.header.into_iter().map(|(name, value)| (name, json!(value))).collect();
        let texts =
            given([("url", url), ("status", status), ("description", self.description), ("payload", self.payload)]);
        let mut body: Map<String, Value> =
            texts.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        if !self.events.is_empty() {
            body.insert("events".to_owned(), json!(self.events));
        }
        for (name, fields) in [("filters", filters), ("headers", headers)] {
            if !fields.is_empty() {
                body.insert(name.to_owned(), fields.into());
            }
        }
        body.into()
    }
}

pub(super) async fn run(command: Command, client: &ApiClient, output: &Output) -> Result<(), Failure> {
    let answer = match command {
        Command::List { status, amount } => {
            return output.list(client, &["webhooks"], &given([("status", status)]), &amount, WEBHOOKS).await;
        }
        Command::Deliveries { webhook, status, event, amount } => {
            let query = given([("status", status), ("event_id", event)]);
            return output.list(client, &["webhooks", &webhook.id, "deliveries"], &query, &amount, DELIVERIES).await;
        }
        Command::Get(Id { id }) => client.get(&["webhooks", &id], &[]).await?,
        Command::Create { url, fields } => client.post(&["webhooks"], fields.body(Some(url), None)).await?,
        Command::Update { webhook, url, status, fields } => {
            client.patch(&["webhooks", &webhook.id], fields.body(url, status)).await?
        }
        Command::Delete(Id { id }) => client.delete(&["webhooks", &id]).await?,
        Command::Test(Id { id }) => client.act(&["webhooks", &id, "test"]).await?,
        Command::RotateSecret(Id { id }) => client.act(&["webhooks", &id, "rotate-secret"]).await?,
        Command::Insight(Id { id }) => client.get(&["webhooks", &id, "insight"], &[]).await?,
        Command::Replay { delivery } => client.act(&["webhook-deliveries", &delivery, "replay"]).await?,
        Command::ReplayAll { webhook, since, status } => {
            let mut body = json!({"since": since});
            if let Some(status) = status {
                body["status"] = json!(status);
            }
            client.post(&["webhooks", &webhook.id, "replay"], body).await?
        }
    };
    Ok(output.one(&answer)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        fields: Fields,
    }

    fn body(arguments: &[&str]) -> Value {
        Line::parse_from([&["x"][..], arguments].concat()).fields.body(None, Some("enabled".to_owned()))
    }

    #[test]
    fn a_body_has_the_given_fields() {
        assert_eq!(body(&[]), json!({"status": "enabled"}));
        let given =
            ["--events", "thesis.created,token.activity", "--token", "$RUN,B", "--text", "a, b", "--payload=thin"];
        let headers = ["--header", "X-Team: desk: a", "--header", "X-Empty:"];
        assert_eq!(
            body(&[&given[..], &headers].concat()),
            json!({
                "status": "enabled", "events": ["thesis.created", "token.activity"], "payload": "thin",
                "filters": {"token": ["$RUN", "B"], "text": ["a, b"]}, "headers": {"X-Team": "desk: a", "X-Empty": ""},
            })
        );
    }
}

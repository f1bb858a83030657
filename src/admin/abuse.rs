//! Addresses that fail to authenticate too often.

use clap::Subcommand;
use serde_json::json;
use thesis_proto::v1::{AbusiveAddress, ListAbuseRequest};
use tonic::Status;

use super::{
    Client,
    output::{CommandOutput, Resource, time},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List addresses that failed 20 times in a minute, of the last 30 days, the latest first
    List,
}

impl From<AbusiveAddress> for Resource {
    fn from(row: AbusiveAddress) -> Self {
        Self(vec![
            ("address", json!(row.address)),
            ("failures", json!(row.failures)),
            ("first_at", time(row.first_at.as_ref())),
            ("last_at", time(row.last_at.as_ref())),
        ])
    }
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    let Command::List = command;
    let (mut rows, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.list_abuse(ListAbuseRequest { limit: None, cursor }).await?.into_inner();
        rows.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(CommandOutput::list(rows));
        }
    }
}

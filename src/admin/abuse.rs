//! Addresses that fail to authenticate too often.

use clap::Subcommand;
use thesis_proto::v1::ListAbuseRequest;
use tonic::Status;

use super::{Client, output::CommandOutput};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List addresses that failed 20 times in a minute, of the last 30 days, the latest first
    List,
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

//! The audit log.

use clap::Subcommand;
use thesis_proto::v1::ListAuditLogRequest;
use tonic::Status;

use super::{Client, output::CommandOutput};

/// Maximum entries of a page.
const MAX_PAGE: usize = 100;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List who did what, newest first; entries are kept for a year
    List {
        /// In this organization [default: what concerns no organization]
        #[arg(long)]
        organization: Option<String>,
        /// Most entries
        #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Begin after those of an earlier list: its `next_cursor`
        #[arg(long)]
        cursor: Option<String>,
    },
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    let Command::List { organization, limit, mut cursor } = command;
    let max_entries = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    loop {
        let limit = i32::try_from((max_entries - entries.len()).min(MAX_PAGE)).ok();
        let request = ListAuditLogRequest { organization_id: organization.clone(), limit, cursor };
        let page = client.list_audit_log(request).await?.into_inner();
        entries.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() || entries.len() >= max_entries {
            return Ok(CommandOutput::Page(entries.into_iter().map(Into::into).collect(), cursor));
        }
    }
}

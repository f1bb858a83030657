//! Files of the archive.

use clap::Subcommand;
use thesis_proto::v1::{BuildArchiveRequest, DatasetFile, ListArchiveRequest};
use tonic::Status;

use super::{Client, output::CommandOutput};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build the files of a day; again gives the same bytes, unless a text was erased
    Build {
        /// The day in UTC, such as 2031-01-31
        #[arg(long)]
        date: String,
        /// `live` or `sandbox` [default: both]
        #[arg(long)]
        dataset: Option<String>,
    },
    /// List the files of all days, newest first
    List {
        /// `live` or `sandbox` [default: both]
        #[arg(long)]
        dataset: Option<String>,
    },
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    let files: Vec<DatasetFile> = match command {
        Command::List { dataset } => client.list_archive(ListArchiveRequest { dataset }).await?.into_inner().data,
        Command::Build { date, dataset } => {
            let mut built = client.build_archive(BuildArchiveRequest { date, dataset }).await?.into_inner();
            let mut files = Vec::new();
            while let Some(response) = built.message().await? {
                files.extend(response.data);
            }
            files
        }
    };
    Ok(CommandOutput::list(files))
}

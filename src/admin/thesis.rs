//! `admin thesis`: acts on deleted theses.

use clap::Subcommand;
use serde_json::json;
use thesis_proto::v1::EraseThesisRequest;
use tonic::Status;

use super::{
    Client,
    output::{CommandOutput, Resource},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Erase the text of a deleted thesis for ever; its receipts stay valid
    Erase {
        /// Its id
        thesis: String,
        /// The reason, for the audit log
        #[arg(long)]
        reason: String,
        /// The dataset that has it: `live`, `sandbox` or `project/<id>`
        #[arg(long, value_name = "DATASET", default_value = "live")]
        dataset: String,
    },
}

pub(super) async fn run(command: Command, mut client: Client) -> Result<CommandOutput, Status> {
    let Command::Erase { thesis, reason, dataset } = command;
    let request = EraseThesisRequest { dataset: dataset.clone(), id: thesis.clone(), reason };
    let entries = client.erase_thesis(request).await?.into_inner().entries;
    Ok(CommandOutput::One(Resource(vec![
        ("object", json!("thesis_erasure")),
        ("thesis_id", json!(thesis)),
        ("dataset", json!(dataset)),
        ("entries", json!(entries)),
    ])))
}

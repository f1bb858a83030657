//! Public reads of the trees over the logs. They need no key. They fail with `ROUTE_NOT_FOUND` for an unknown dataset
//! or tile, and with `RECEIPT_UNAVAILABLE` if there is no signed tree.

use thesis_proto::{error::ErrorCode, time::from_millis, v1};
use thesis_receipts::TileId;

use super::receipts::{checkpoint, trees};
use crate::{
    domain::dataset::Dataset,
    error::{Error, Result},
    log::tree::DATASETS,
    service::Core,
};

/// The dataset with this name, if its log has a tree.
fn dataset(name: &str) -> Result<Dataset> {
    let found = DATASETS.into_iter().find(|dataset| dataset.name() == name);
    found.ok_or_else(|| absent("there is no log of this dataset; there are `live` and `sandbox`"))
}

fn absent(text: &str) -> Error {
    Error::new(ErrorCode::RouteNotFound, text)
}

/// Reads the newest signed checkpoint.
pub async fn get_checkpoint(core: &Core, message: v1::GetCheckpointRequest) -> Result<v1::GetCheckpointResponse> {
    let dataset = dataset(&message.dataset)?;
    Ok(v1::GetCheckpointResponse { note: checkpoint(core, &dataset).await?.note })
}

/// Reads hashes of a tree.
pub async fn get_tile(core: &Core, message: v1::GetTileRequest) -> Result<v1::GetTileResponse> {
    let dataset = dataset(&message.dataset)?;
    let (tile, width) = TileId::parse(&message.tile)
        .ok_or_else(|| absent("this is no tile; write level and index as in 0/x001/234, or 0/x001/234.p/12"))?;
    let hashes = trees(core)?.tile(&dataset, tile, width).await?;
    let beyond =
        || absent("the newest checkpoint does not have this tile; read the checkpoint, and take one of its tiles");
    Ok(v1::GetTileResponse { hashes: hashes.ok_or_else(beyond)? })
}

/// Lists the keys that ever signed checkpoints, oldest first.
pub async fn list_keys(core: &Core, _: v1::LogServiceListKeysRequest) -> Result<v1::LogServiceListKeysResponse> {
    let trees = trees(core)?;
    let mut keys = Vec::new();
    for dataset in DATASETS {
        keys.extend(trees.keys(&dataset).await?);
    }
    keys.sort_by_key(|key| key.created_at);
    let keys = keys.into_iter().map(|key| v1::LogKey {
        name: key.name,
        key: key.key,
        created_at: Some(from_millis(key.created_at)),
        retired_at: key.retired_at.map(from_millis),
    });
    Ok(v1::LogServiceListKeysResponse { data: keys.collect(), next_cursor: None, has_more: false })
}

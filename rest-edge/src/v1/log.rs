//! Receipts, and the signed trees over the logs that contain their entries.

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, ETAG},
};
use thesis_proto::{error::ErrorCode, json, v1};

use crate::{
    answer::{Answer, Body, Failure, bytes, json},
    call::Call,
    conditional::tag_of,
    context::Context,
    input::path_text,
    route::{Route, route},
};

const TEXT: &str = "text/plain; charset=utf-8";
const OCTETS: &str = "application/octet-stream";
/// Caches must revalidate a checkpoint, which would soon be more than two seconds behind the log.
const REVALIDATED: &str = "public, no-cache";
/// The hashes of a tile never change.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

const CHECKPOINT_EXAMPLE: &str = concat!(
    "trade-thesis/sandbox/gen_8m2q0d4v7tz1w5x9b3c6f0hj\n3\nahcG309ji4Nv0dptmkK2yirrO9UHzSVfbrqaLoQHbOw=\n\n",
    "\u{2014} trade-thesis/sandbox/gen_8m2q0d4v7tz1w5x9b3c6f0hj ",
    "rK5n5JpHLko10MmwDirEI7YASK79YGM8UprNb/xRYkGECrkqHAeNNw3lIJTYSOjy3k8OrwmUkx/9RUvsGPBIWR+gWgw=\n",
);
const DATASET: &str = "The dataset of the log: `live` or `sandbox`";

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/theses/{id}/receipt", "LogService/GetReceipt", receipt)
            .named("getReceipt", "Receipts", "Reads the receipt of a thesis.")
            .about(
                "A receipt lets anyone check offline, with a key of the service, that it had recorded the thesis: a \
                 later rewrite would contradict its signature. It is that of the last edit, or of the posting; of a \
                 deleted thesis it is the receipt of the deletion. It proves what this service recorded, and when by \
                 its own clock, not who controls the account. A thesis of a project's own test data has none, and a \
                 new one has its receipt within two seconds: until then it is 409 `RECEIPT_UNAVAILABLE`. `proof` has \
                 the format `c2sp.org/tlog-proof@v1`.",
            )
            .needs(Some("theses:read"), "verify")
            .fails(&[
                ErrorCode::ThesisNotFound,
                ErrorCode::FeatureDisabled,
                ErrorCode::HistoryLimit,
                ErrorCode::ReceiptUnavailable,
            ])
            .path_parameter("The thesis, `th_…`")
            .answers::<json::Receipt<'_>>(200),
        Route::open("/v1/log/keys", "LogService/ListKeys", |edge, call| Box::pin(list_keys(edge, call)))
            .named("listLogKeys", "Receipts", "Lists the keys that sign the logs.")
            .about(
                "Every key that ever signed a checkpoint, oldest first; replaced keys stay. Keep the keys that you \
                 trust: a receipt names its keys, and is worth as much as your trust in one of them. It needs no key \
                 of the API, and is limited to 600 requests a minute and address, with checkpoints and tiles.",
            )
            .fails(&[ErrorCode::ReceiptUnavailable])
            .answers::<json::LogKeyList<'_>>(200),
        Route::open("/v1/log/{dataset}/checkpoint", "LogService/GetCheckpoint", |edge, call| {
            Box::pin(checkpoint(edge, call))
        })
        .named("getCheckpoint", "Receipts", "Reads the newest signed checkpoint of a log.")
        .about(
            "Size and root of the tree over the log, as a signed note in the format `c2sp.org/tlog-checkpoint`. It is \
             at most two seconds behind the log. It needs no key, and is limited to 600 requests a minute and \
             address, with tiles and keys.",
        )
        .fails(&[ErrorCode::ReceiptUnavailable])
        .path_parameter(DATASET)
        .answers_bytes(TEXT, "The signed note.", CHECKPOINT_EXAMPLE)
        .tagged(),
        Route::open("/v1/log/{dataset}/tile/{*tile}", "LogService/GetTile", |edge, call| Box::pin(tile(edge, call)))
            .named("getTile", "Receipts", "Reads hashes of the tree over a log.")
            .about(
                "Up to 256 hashes of 32 bytes, as `c2sp.org/tlog-tiles` has them. A tile never changes, and may be \
                 cached for good. One that the newest checkpoint does not have is 404. It needs no key, and is \
                 limited to 600 requests a minute and address, with checkpoints and keys.",
            )
            .fails(&[ErrorCode::ReceiptUnavailable])
            .path_parameter(DATASET)
            .path_rest("Level and index, such as `0/x001/234`, or `0/x001/234.p/12` for the first 12 hashes")
            .answers_bytes(OCTETS, "The hashes, one after the other.", "(32 bytes for each hash)")
            .tagged(),
    ]
}

async fn receipt(edge: &Context, call: &Call) -> Answer {
    let request = v1::GetReceiptRequest { thesis_id: call.id.clone() };
    let (metadata, answer, _) = edge.core.log.get_receipt(call.request(request)).await?.into_parts();
    let receipt = answer.receipt.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::Receipt::from(&receipt))
}

async fn list_keys(edge: &Context, call: &Call) -> Answer {
    let request = v1::LogServiceListKeysRequest {};
    let (metadata, answer, _) = edge.core.log.list_keys(call.request(request)).await?.into_parts();
    json(StatusCode::OK, &metadata, &json::LogKeyList::from(&answer))
}

async fn checkpoint(edge: &Context, call: &Call) -> Answer {
    let request = v1::GetCheckpointRequest { dataset: call.id.clone() };
    let answer = edge.core.log.get_checkpoint(call.request(request)).await?.into_inner();
    Ok(cacheable(answer.note.into(), TEXT, REVALIDATED))
}

async fn tile(edge: &Context, call: &Call) -> Answer {
    let rest = call.head.uri.path().split_once("/tile/").map_or("", |(_, rest)| rest);
    let broken = "the path's percent-encoding is broken; write each % as %25";
    let tile = path_text(rest).ok_or_else(|| Failure::shape(ErrorCode::InvalidRequest, broken))?;
    let request = v1::GetTileRequest { dataset: call.id.clone(), tile: tile.into_owned() };
    let answer = edge.core.log.get_tile(call.request(request)).await?.into_inner();
    Ok(cacheable(answer.hashes, OCTETS, IMMUTABLE))
}

fn cacheable(body: Bytes, kind: &'static str, caching: &'static str) -> Response<Body> {
    let tag = tag_of(&body);
    let mut response = bytes(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(ETAG, tag);
    response
}

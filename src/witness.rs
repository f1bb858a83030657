//! `trade-thesis witness`: cosigns the checkpoints of logs that it knows (C2SP `tlog-witness`). It suits tests and
//! small groups.
//!
//! With a cosignature a witness confirms that the checkpoint continues the last one that it saw, so the log has not
//! been rewritten. A reader of a receipt who trusts a witness need not trust the service to show everybody the same
//! log.

mod cosigner;
#[cfg(test)]
mod tests;

use std::{fs, io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::post,
};
use clap::Args;
use thesis_net::clock::{SystemClock, SystemIdSource};
use thesis_receipts::{VerifierKey, WitnessRefusal};
use tokio::{net::TcpListener, task::spawn_blocking};

use self::cosigner::{CosignError, Cosigner};
use crate::{
    Failure,
    config::{Refused, Settings},
    ready,
    roles::Signals,
    secrets,
    terminal::note,
};

/// Maximum size of a request. A proof has 3 KiB at most, and a checkpoint with 16 signatures 2 KiB.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// The folder of the last checkpoints, in the data folder.
const CHECKPOINTS: &str = "witness";
/// The file with the public key, in the data folder.
const PUBLIC_KEY: &str = "witness_key.pub";
/// The media type of a size, by the specification.
const SIZE: &str = "text/x.tlog.size";

/// Cosign the checkpoints of logs, so that no service can show two histories of its log
#[derive(Debug, Args)]
#[command(after_help = "Its key and the last checkpoint of each log are in the data folder. Whoever loses the folder \
    starts a new witness with another key.")]
pub(crate) struct Witness {
    /// Its name, such as witness.example/ann
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// The key of a log that it cosigns, as the service lists it at /v1/log/keys; several for several logs
    #[arg(long, value_name = "KEY", required = true)]
    key: Vec<VerifierKey>,
    /// It listens here; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9700")]
    listen: SocketAddr,
}

fn name(text: &str) -> Result<String, String> {
    let is_wrong = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '+';
    if text.is_empty() || text.contains(is_wrong) {
        return Err("it needs one character or more, and neither spaces nor a plus".to_owned());
    }
    Ok(text.to_owned())
}

/// Cosigns until a signal.
pub(crate) async fn run(witness: Witness, settings: &Settings) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let Witness { name, key, listen } = witness;
    let dir = &settings.store.data_dir;
    secrets::folder(dir)?;
    let seed = secrets::witness_key(dir, &SystemIdSource)?;
    let unusable = |error: io::Error| Refused::new("SVC_DATA_DIR", format!("{}: {error}", dir.display()));
    let cosigner = Cosigner::new(name, &seed, key, dir.join(CHECKPOINTS), Arc::new(SystemClock)).map_err(unusable)?;
    let public_key = cosigner.public_key().to_string();
    fs::write(dir.join(PUBLIC_KEY), &public_key).map_err(unusable)?;
    let refused = |error: io::Error| Refused::new("--listen", format!("cannot listen at {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    ready::announce_http("witness", listener.local_addr()?, &format!("  key       {public_key}\n"))?;
    // A request that is cut off loses nothing: its log sends it again.
    tokio::select! {
        served = axum::serve(listener, routes(Arc::new(cosigner))).into_future() => Ok(served?),
        () = signals.next() => Ok(()),
    }
}

fn routes(cosigner: Arc<Cosigner>) -> Router {
    Router::new()
        .route("/add-checkpoint", post(add_checkpoint))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(cosigner)
}

async fn add_checkpoint(State(cosigner): State<Arc<Cosigner>>, body: String) -> Response {
    let outcome = spawn_blocking(move || cosigner.add_checkpoint(&body)).await;
    let error = match outcome {
        Ok(Ok(cosignature)) => return cosignature.into_response(),
        Ok(Err(error)) => error,
        Err(panicked) => CosignError::Broken(io::Error::other(panicked)),
    };
    if matches!(
        error,
        CosignError::Refused(WitnessRefusal::Inconsistent | WitnessRefusal::OtherRoot(_)) | CosignError::Broken(_)
    ) {
        note(&error.to_string());
    }
    let status = match &error {
        CosignError::Refused(WitnessRefusal::OtherSize(size) | WitnessRefusal::OtherRoot(size)) => {
            return (StatusCode::CONFLICT, [(CONTENT_TYPE, SIZE)], format!("{size}\n")).into_response();
        }
        CosignError::Refused(WitnessRefusal::Form) => StatusCode::BAD_REQUEST,
        CosignError::Refused(WitnessRefusal::UnknownLog(_)) => StatusCode::NOT_FOUND,
        CosignError::Refused(WitnessRefusal::Unsigned) => StatusCode::FORBIDDEN,
        CosignError::Refused(WitnessRefusal::Inconsistent) => StatusCode::UNPROCESSABLE_ENTITY,
        // The caller does not get the error's text, which names files of this machine.
        CosignError::Broken(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    (status, format!("{error}\n")).into_response()
}

//! The program that the service is compared with: axum's router and a handler that gives prepared bytes, behind the
//! same server settings as the service's REST edge.

use std::{path::Path, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::Path as Parameter,
    http::{HeaderMap, HeaderName, HeaderValue},
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::net::TcpListener;

use crate::{
    Failure,
    connection::{Answer, find},
};

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEAD: usize = 16 * 1024;

/// An answer as it is kept for the bare handler: head, empty line, body.
pub(crate) fn prepared(answer: &Answer<'_>) -> Vec<u8> {
    [answer.head, b"\r\n\r\n", answer.body].concat()
}

/// Serves the two prepared answers.
pub(crate) async fn serve(by_id: &Path, list: &Path) -> Result<(), Failure> {
    let (by_id, list) = (read(by_id)?, read(list)?);
    let router = Router::new()
        .route("/v1/theses/{id}", get(async move |Parameter(_): Parameter<String>| by_id.clone()))
        .route("/v1/theses", get(async move || list.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", serde_json::json!({ "http": format!("http://{}", listener.local_addr()?) }));

    let mut protocol = Builder::new(TokioExecutor::new());
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (protocol, service) = (protocol.clone(), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            // A client that ends its run just goes away.
            let _ = protocol.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn read(file: &Path) -> Result<(HeaderMap, Bytes), Failure> {
    let answer = std::fs::read(file)?;
    let end = find(&answer, b"\r\n\r\n").ok_or("a prepared answer has no head")?;
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(&answer[..end])?.lines().skip(1) {
        let (name, value) = line.split_once(": ").ok_or("a prepared header has no value")?;
        // Set by the server itself.
        if name != "date" && name != "content-length" {
            headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
    }
    Ok((headers, Bytes::copy_from_slice(&answer[end + 4..])))
}

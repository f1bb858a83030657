//! `mcp`: the tools of the Model Context Protocol over stdin and stdout, for clients that start their servers
//! themselves. Each call of a tool is a request to the API over HTTP.

use axum::{
    body::Bytes,
    http::{Request, Response},
};
use clap::Args;
use reqwest::Client;
use rest_edge::{McpServer, ToolApi};
use rmcp::service::ServerInitializeError;
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Failure,
    account::{Account, Credentials},
    config::Settings,
    http,
    roles::Signals,
};

/// Maximum length of a response in bytes: ten times the largest page of a tool.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

/// Serve the API's tools to a program that works with a language model (MCP), over stdin and stdout.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(flatten)]
    account: Account,
}

/// Serves until the client ends, or until a signal.
pub(crate) async fn run(mcp: Mcp, settings: &Settings) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let root_certificate = settings.webhooks.root_certificate()?;
    let http = http::client(root_certificate.as_deref())?.timeout(http::RESPONSE_TIMEOUT).build()?;
    let api = HttpApi { http, credentials: mcp.account.credentials()? };
    tokio::select! {
        served = serve(api, tokio::io::stdin(), tokio::io::stdout()) => served,
        () = signals.next() => Ok(()),
    }
}

async fn serve<R, W>(api: HttpApi, input: R, output: W) -> Result<(), Failure>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    match rmcp::serve_server(McpServer::new(api), (input, output)).await {
        Ok(serving) => {
            serving.waiting().await?;
            Ok(())
        }
        // The client ended before it began.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        // The error around the cause names types of the program, and hides that a pipe is closed.
        Err(ServerInitializeError::TransportError { error, .. }) => Err(error.error),
        Err(error) => Err(error.into()),
    }
}

/// The API over HTTP.
struct HttpApi {
    http: Client,
    credentials: Credentials,
}

impl ToolApi for HttpApi {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let Credentials { key, base } = &self.credentials;
        let unreachable = |error: reqwest::Error| format!("{base}: {}", http::whole(error));
        let (head, body) = request.into_parts();
        let request = self.http.request(head.method, format!("{base}{}", head.uri)).headers(head.headers);
        let request = request.bearer_auth(key.expose_secret().trim()).body(body);
        let mut response = request.send().await.map_err(unreachable)?;
        let (status, headers) = (response.status(), response.headers().clone());
        if !http::is_json(&headers) {
            return Err(http::other_service(base, status));
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unreachable)? {
            if body.len() + piece.len() > MAX_RESPONSE_BYTES {
                return Err(format!("{base}: the response is larger than {MAX_RESPONSE_BYTES} bytes"));
            }
            body.extend_from_slice(&piece);
        }
        let mut whole = Response::new(Bytes::from(body));
        (*whole.status_mut(), *whole.headers_mut()) = (status, headers);
        Ok(whole)
    }

    fn request_id(&self) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use axum::{Json, Router, http::HeaderMap, routing::get};
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split},
        net::TcpListener,
    };

    use super::*;

    /// Sends a request and returns its result.
    async fn call(client: &mut BufReader<DuplexStream>, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        client.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        client.read_line(&mut line).await.unwrap();
        let mut response: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(response["id"], 7, "{line}");
        response["result"].take()
    }

    /// A response that contains the key.
    async fn me(headers: HeaderMap) -> Json<Value> {
        Json(json!({"environment": "test", "scopes": [headers["authorization"].to_str().unwrap()]}))
    }

    #[tokio::test]
    async fn tools_send_the_key_and_say_when_another_service_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().route("/v1/me", get(me)).route("/v1/me/usage", get("no JSON"));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let (client, server) = duplex(64 * 1024);
        let (input, output) = split(server);
        let http = http::client(None).unwrap().no_proxy().build().unwrap();
        let credentials = Credentials { key: " svc_test_x\n".into(), base: base.clone() };
        let served = tokio::spawn(serve(HttpApi { http, credentials }, input, output));
        let mut client = BufReader::new(client);
        let about = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about});
        let result = call(&mut client, "initialize", params).await;
        let instructions = result["instructions"].as_str().unwrap();
        assert!(instructions.contains("test key") && instructions.contains("Bearer svc_test_x."), "{instructions}");
        client.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await.unwrap();

        let result = call(&mut client, "tools/call", json!({"name": "get_usage"})).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(result["isError"] == true && text.contains("SERVICE_UNAVAILABLE"), "{result}");
        assert!(text.contains(&base) && text.contains("check the address") && !text.contains("svc_test_x"), "{text}");
        assert!(!text.contains("request_id"), "no service has an id for it: {text}");
        drop(client);
        served.await.unwrap().unwrap();
    }
}

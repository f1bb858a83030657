//! Endpoints of webhooks. They note each attempt that they receive, and treat it as the schedule says.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use thesis_proto::webhook::{DELIVERY_ATTEMPT, DELIVERY_ID, EVENT_ID};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::sleep,
};
use turmoil::net::{TcpListener, TcpStream};

use super::{
    cluster::{Cluster, Treatment},
    history::{Fact, ReceivedAttempt},
};

/// The port of every endpoint.
const PORT: u16 = 8_080;
/// Time until a late response, beyond the timeout of an attempt.
const LATE: Duration = Duration::from_secs(5);
/// Time after which an endpoint that hangs closes the connection.
const HANG: Duration = Duration::from_secs(20);
const ACCEPTED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";

/// The URL of an endpoint.
pub(super) fn url(address: IpAddr) -> String {
    format!("http://{address}:{PORT}/")
}

/// Receives attempts until the run ends.
pub(super) async fn receive(cluster: Arc<Cluster>, number: usize) {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await.unwrap();
    while let Some(accepted) = cluster.stop.run_until_cancelled(listener.accept()).await {
        let (stream, _) = accepted.unwrap();
        let cluster = Arc::clone(&cluster);
        tokio::spawn(async move {
            // The worker may be gone.
            drop(respond(&cluster, number, stream).await);
        });
    }
}

/// The value of a header.
fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (header, value) = line.split_once(':')?;
        header.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// Reads the head of a request, and its body, which nobody needs.
async fn read(stream: &mut TcpStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let head = end.map(|end| String::from_utf8_lossy(&bytes[..end]).into_owned());
        if let (Some(end), Some(head)) = (end, head) {
            let length = value(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                return Ok(head);
            }
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn respond(cluster: &Cluster, number: usize, mut stream: TcpStream) -> io::Result<()> {
    let head = read(&mut stream).await?;
    let receiver = &cluster.receivers[number];
    let treatment = *receiver.treatment.lock();
    let text = |name: &str| value(&head, name).unwrap_or_default().to_owned();
    let accepted = matches!(treatment, Treatment::Accepts | Treatment::AcceptsLate | Treatment::AcceptsTwice);
    let attempt = ReceivedAttempt {
        event: text(EVENT_ID),
        delivery: text(DELIVERY_ID),
        number: text(DELIVERY_ATTEMPT).parse().unwrap(),
        accepted,
    };
    cluster.history.note(&receiver.name, Fact::Received(attempt));
    match treatment {
        Treatment::Accepts => stream.write_all(ACCEPTED).await?,
        Treatment::Fails => stream.write_all(FAILED).await?,
        Treatment::Hangs => sleep(HANG).await,
        Treatment::AcceptsLate => {
            sleep(LATE).await;
            stream.write_all(ACCEPTED).await?;
        }
        Treatment::AcceptsTwice => stream.write_all(&[ACCEPTED, ACCEPTED].concat()).await?,
        Treatment::Closes => {}
    }
    stream.shutdown().await
}

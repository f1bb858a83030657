//! Attempts whose host has to be resolved, with name servers that are not to be trusted.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
};

use delivery_worker::WorkerConfig;
use hickory_resolver::proto::rr::RecordType;

use crate::{
    HOST, config,
    core::{Harness, claim},
    endpoint::Endpoint,
    hasty,
    name_server::{self, Records, Reply, Transport, address, alias},
    outcome,
};

const INSIDE: &str = "inside.receiver.dev";

/// A name server whose records a test can change.
async fn zone(records: Records) -> (SocketAddr, Arc<Mutex<Records>>) {
    let records = Arc::new(Mutex::new(records));
    let served = Arc::clone(&records);
    let server = name_server::start(move |_, _| Reply::Records(served.lock().unwrap().clone())).await;
    (server, records)
}

fn asking(server: SocketAddr) -> WorkerConfig {
    WorkerConfig { dns_servers: vec![server], ..config() }
}

fn url(endpoint: &Endpoint) -> String {
    format!("http://{HOST}:{}/status/200", endpoint.address.port())
}

#[tokio::test]
async fn resolves_and_judges_before_every_attempt() {
    let mut endpoint = Endpoint::start().await;
    let (server, records) = zone(vec![(HOST, address("127.0.0.1"))]).await;
    let mut harness = Harness::start(asking(server));
    let stream = harness.stream().await;
    let claim = claim(url(&endpoint));

    assert_eq!(harness.outcome(&stream, claim.clone()).await, Ok(200));
    let (headers, _) = endpoint.received.recv().await.unwrap();
    assert_eq!(headers["host"], format!("{HOST}:{}", endpoint.address.port()));

    // The connection of the attempt before is still open, to an address that is refused now.
    *records.lock().unwrap() = vec![(HOST, address("10.0.0.7"))];
    assert_eq!(harness.outcome(&stream, claim.clone()).await, Err("address refused: private".into()));

    records.lock().unwrap().clear();
    assert_eq!(harness.outcome(&stream, claim).await, Err("dns failed".into()));
    assert!(endpoint.received.is_empty());
}

#[tokio::test]
async fn one_refused_address_refuses_all() {
    let mut endpoint = Endpoint::start().await;
    let (server, records) = zone(Vec::new()).await;
    let mut harness = Harness::start(asking(server));
    let stream = harness.stream().await;
    for (refused, reason) in [
        ("10.0.0.7", "private"),
        ("169.254.169.254", "linkLocal"),
        ("0.0.0.0", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("::1", "loopback"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "linkLocal"),
        ("::ffff:10.0.0.7", "private"),
        ("64:ff9b::a00:7", "private"),
        ("2001:db8::1", "reserved"),
    ] {
        let (good, bad) = ((HOST, address("127.0.0.1")), (HOST, address(refused)));
        for mixed in [vec![good.clone(), bad.clone()], vec![bad, good]] {
            *records.lock().unwrap() = mixed;
            let outcome = harness.outcome(&stream, claim(url(&endpoint))).await;
            assert_eq!(outcome, Err(format!("address refused: {reason}")), "{refused}");
        }
    }
    *records.lock().unwrap() = vec![(HOST, address("127.0.0.1")), (HOST, address("::ffff:127.0.0.1"))];
    assert_eq!(harness.outcome(&stream, claim(url(&endpoint))).await, Ok(200));
    endpoint.received.recv().await.unwrap();
    assert!(endpoint.received.is_empty());
}

#[tokio::test]
async fn an_alias_is_judged_by_where_it_leads() {
    let mut endpoint = Endpoint::start().await;
    let (server, records) = zone(Vec::new()).await;
    let mut harness = Harness::start(asking(server));
    let stream = harness.stream().await;
    let private = || Err("address refused: private".to_owned());
    let (alias, inside) = ((HOST, alias(INSIDE)), (INSIDE, address("10.0.0.8")));
    // In one answer, then in two: records before the alias have to be asked for.
    for order in [vec![alias.clone(), inside.clone()], vec![inside, alias.clone()]] {
        *records.lock().unwrap() = order;
        assert_eq!(harness.outcome(&stream, claim(url(&endpoint))).await, private());
    }
    *records.lock().unwrap() = vec![alias.clone(), (INSIDE, address("127.0.0.1")), (INSIDE, address("10.0.0.8"))];
    assert_eq!(harness.outcome(&stream, claim(url(&endpoint))).await, private());
    assert!(endpoint.received.try_recv().is_err());

    *records.lock().unwrap() = vec![(INSIDE, address("127.0.0.1")), alias];
    assert_eq!(harness.outcome(&stream, claim(url(&endpoint))).await, Ok(200));
}

#[tokio::test]
async fn connects_only_to_the_address_that_was_judged() {
    let mut endpoint = Endpoint::start().await;
    // Another allowed address with the same port.
    let elsewhere = TcpListener::bind(("127.0.0.2", endpoint.address.port())).unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let mut queries = 0;
    let server = name_server::start(move |_, kind| {
        queries += usize::from(kind == RecordType::A);
        let now = if queries <= 1 { "127.0.0.1" } else { "127.0.0.2" };
        Reply::Records(vec![(HOST, address(now))])
    })
    .await;
    assert_eq!(outcome(asking(server), claim(url(&endpoint))).await, Ok(200));
    endpoint.received.recv().await.unwrap();
    assert_eq!(elsewhere.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_silent_name_server_costs_no_more_than_the_attempt() {
    let mut endpoint = Endpoint::start().await;
    let server = name_server::start(|_, _| Reply::Silence).await;
    let config = WorkerConfig { dns_servers: vec![server], ..hasty() };
    assert_eq!(outcome(config, claim(url(&endpoint))).await, Err("timeout".into()));
    assert!(endpoint.received.try_recv().is_err());
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_over_tcp() {
    let mut endpoint = Endpoint::start().await;
    let found = Arc::new(Mutex::new("127.0.0.1"));
    let served = Arc::clone(&found);
    let server = name_server::start(move |transport, _| match transport {
        Transport::Udp => Reply::Truncated,
        Transport::Tcp => Reply::Records(vec![(HOST, address(&served.lock().unwrap()))]),
    })
    .await;
    assert_eq!(outcome(asking(server), claim(url(&endpoint))).await, Ok(200));
    endpoint.received.recv().await.unwrap();

    *found.lock().unwrap() = "10.0.0.7";
    assert_eq!(outcome(asking(server), claim(url(&endpoint))).await, Err("address refused: private".into()));
    assert!(endpoint.received.is_empty());
}

//! Two cores on one keyspace: one of them follows the feed for both, and both look up.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use super::{SMALL, new};
use crate::harness::{Client, Following, SOON, Setup, Upstream, eventually, profile_id, text, thesis_id};

/// Longest time until another core follows the feed: five seconds, and a little to see it.
const TAKEN_OVER: Duration = Duration::from_millis(6_000);

#[tokio::test(flavor = "multi_thread")]
async fn one_core_follows_the_feed_for_all() {
    let Some(nodes) = crate::harness::nodes() else { return };
    let settings = |setup: Setup| setup.set("SVC_UPSTREAM_REFRESH_SECONDS", "5");
    let mut live = Following::of_replicas(&nodes, Upstream::start(SMALL).await, true, settings).await;
    let clients: Vec<Client> = live.service.edges.iter().map(|edge| live.client.moved_to(edge)).collect();
    live.agrees(3 * SOON).await;
    live.has_one_connection().await;
    both_look_up(&live, &clients).await;
    for killed in [0, 1] {
        another_takes_over(&mut live, &clients, killed).await;
    }
    live.agrees(3 * SOON).await;
    live.finds_all().await;
}

async fn both_look_up(live: &Following, clients: &[Client]) {
    for (number, client) in clients.iter().enumerate() {
        let handle = format!("Through_{number}");
        let profile = live.upstream.profile(&handle).await;
        let found = client.get(&format!("/v1/profiles?handle={handle}")).await.ok(200);
        assert_eq!(text(&found, "id"), profile_id(&profile));
        let name = format!("base:0x{number:040x}");
        live.upstream.token("base", &name["base:".len()..], &format!("THROUGH{number}")).await;
        assert_eq!(client.get(&format!("/v1/tokens/{name}")).await.ok(200)["thesis_count"], 0);
    }
    // Both at once ask once, for what is there and for what is not. A core that does not hear from the other one in time
    // asks itself.
    live.upstream.faults(&json!({"latency_ms": 200})).await;
    let profile = live.upstream.profile("Through_both").await;
    for (handle, status) in [("through_both", 200), ("through_none", 404)] {
        let before = live.upstream.look_ups("profile_by_handle").await;
        let path = format!("/v1/profiles?handle={handle}");
        let asking = (0..10).map(|number| clients[number % clients.len()].get(&path));
        for answer in join_all(asking).await {
            assert_eq!(answer.status, status, "{}", answer.text);
            assert!(status != 200 || answer.json()["id"] == profile_id(&profile), "{}", answer.text);
        }
        let asked = live.upstream.look_ups("profile_by_handle").await - before;
        assert!((1..=2).contains(&asked), "{handle}: {asked}");
        // The miss of one is the miss of both.
        for client in clients {
            assert_eq!(client.get(&path).await.status, status);
        }
        let asked = live.upstream.look_ups("profile_by_handle").await - before;
        assert!((1..=2).contains(&asked), "{handle}: {asked}");
    }
    live.upstream.calm().await;
}

/// Kills a core with -9; the other one follows the feed soon, if it did not before, and nothing is missed.
async fn another_takes_over(live: &mut Following, clients: &[Client], killed: usize) {
    let there = &clients[1 - killed];
    let author = live.upstream.profile(&format!("Survivor_{killed}")).await;
    let on = live.upstream.truth("tokens").await.remove(0);
    let opened = live.upstream.number("feed_opened").await;
    let mut posted = Vec::new();
    for number in 0..20 {
        posted.push(live.upstream.post(&new(&author, &on, &format!("before {number}"))).await);
    }
    live.service.end(killed, "KILL").await;
    let since = Instant::now();
    for number in 0..20 {
        posted.push(live.upstream.post(&new(&author, &on, &format!("after {number}"))).await);
    }
    for thesis in &posted {
        let path = format!("/v1/theses/{}", thesis_id(thesis));
        let arrived = async || (there.get(&path).await.status == 200).then_some(());
        eventually("it arrives at the other core", TAKEN_OVER.saturating_sub(since.elapsed()), arrived).await;
    }
    let has_moved = live.upstream.number("feed_opened").await > opened;
    println!("core {killed} was killed: followed: {has_moved}; all is there after {:?}", since.elapsed());
    live.has_one_connection().await;
    live.service.start_again(killed).await;
    live.service.is_ready().await;
    // What the returned core serves is the same.
    let last = thesis_id(posted.last().unwrap());
    let path = format!("/v1/theses/{last}");
    let here = async || (clients[killed].get(&path).await.status == 200).then_some(());
    eventually("the core that returned knows it", SOON, here).await;
    live.has_one_connection().await;
    let told = async || live.status().await.position;
    eventually("the core that follows tells its position", SOON, told).await;
}

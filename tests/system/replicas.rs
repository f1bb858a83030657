//! Two cores on one keyspace, an edge before each: limits hold for both together, and an operator's changes act on
//! both.

mod write_times;

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use thesis_proto::v1::{self, Environment};
use tokio::{task::JoinSet, time::Instant};

use crate::harness::{
    ALL_SCOPES, Answer, Client, Process, SERVICE_TOKEN, SOON, Service, Setup, eventually, now_ms, text,
};

/// Longest time until a change at one replica acts on the other.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A second core with an edge that knows only this one.
struct Second {
    core: Process,
    edge: Process,
}

impl Second {
    fn start(service: &Service) -> Self {
        let core = service.another_core().start();
        let edge = Setup::new(service.dir.path()).role("edge").set("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
        let edge = edge.set("SVC_TRUSTED_PROXIES", "127.0.0.0/8").set("SVC_CORE_URL", &core.address("grpc")).start();
        Self { core, edge }
    }

    /// The same customer here, once the key is known.
    async fn client(&self, client: &Client) -> Client {
        let client = client.moved_to(&self.edge.address("http"));
        eventually("the key is known", SOON, async || {
            let answer = client.get("/v1/theses?limit=0").await;
            (answer.status != 401 && answer.status != 403).then_some(())
        })
        .await;
        client
    }
}

/// Sends until refused again and again; gives when each request was sent and whether it was admitted.
async fn hammer(client: Client) -> Vec<(i64, bool)> {
    let (mut sent, mut refused) = (Vec::new(), 0);
    while refused < 20 {
        let at = now_ms();
        let admitted = client.get("/v1/me").await.status == 200;
        refused += u32::from(!admitted);
        sent.push((at, admitted));
    }
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_window_is_one_for_all_replicas() {
    let Some(service) = crate::harness::cluster().await else { return };
    let second = Second::start(service);
    loop {
        let here = service.project_on("free").await.test().await;
        let there = second.client(&here).await;
        let usage = here.get("/v1/me/usage").await;
        let window = usage.number("x-ratelimit-reset");
        let before = 300 - usage.ok(200)["rates"]["standard"]["remaining"].as_i64().unwrap();
        let mut hammering = JoinSet::new();
        for number in 0..8 {
            hammering.spawn(hammer(if number % 2 == 0 { &here } else { &there }.clone()));
        }
        let sent: Vec<(i64, bool)> = hammering.join_all().await.into_iter().flatten().collect();
        let last = here.get("/v1/me").await;
        if last.number("x-ratelimit-reset") != window {
            continue;
        }
        // Nothing is left of the limit, and both know it.
        last.error(429, "RATE_LIMITED");
        there.get("/v1/me").await.error(429, "RATE_LIMITED");
        let admitted = before + i64::try_from(sent.iter().filter(|(_, admitted)| *admitted).count()).unwrap();
        let within = |from: i64| sent.iter().filter(|(at, _)| (from..from + 300).contains(at)).count();
        let most = i64::try_from(sent.iter().map(|(at, _)| within(*at)).max().unwrap()).unwrap();
        println!("{} sent, {admitted} admitted of 300; at most {most} came in 300 ms", sent.len());
        assert!((300..=300 + most).contains(&admitted), "{admitted} admitted, {most} in 300 ms");
        return;
    }
}

#[tokio::test]
async fn the_months_quota_is_one_for_all_replicas_and_survives_them() {
    let Some(service) = crate::harness::cluster().await else { return };
    let mut second = Second::start(service);
    let here = service.project_on("few").await.test().await;
    let there = second.client(&here).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(there.get("/v1/me").await.status);
        statuses.push(here.get("/v1/me").await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429, 429, 429]);
    second.core.signal("KILL");
    second.core.exit(SOON).await;
    let third = Second::start(service);
    let there = third.client(&here).await;
    there.get("/v1/me").await.error(429, "QUOTA_EXCEEDED");
    here.get("/v1/me").await.error(429, "QUOTA_EXCEEDED");
}

#[tokio::test]
async fn what_one_replica_counts_the_other_tells_soon() {
    let Some(service) = crate::harness::cluster().await else { return };
    let second = Second::start(service);
    let here = service.project().await.test().await.at_one_edge();
    let there = second.client(&here).await;
    for _ in 0..10 {
        here.get("/v1/me").await.ok(200);
    }
    let mut asked = 0;
    // Far from its limits a replica stores its counts every two seconds.
    eventually("all ten are told", Duration::from_secs(4), async || {
        let usage = there.get("/v1/me/usage").await.ok(200);
        asked += 1;
        assert!(usage["month"]["used"].as_i64() <= Some(10 + asked), "{usage}");
        (usage["month"]["used"] == 10 + asked).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_core_that_has_just_started_never_searches_a_part() {
    let Some(service) = crate::harness::cluster().await else { return };
    let here = service.project_on("huge").await.test().await.at_one_edge();
    let path = "/v1/search?q=run&types=theses&limit=50";
    let found = |answer: &Answer| answer.ok(200)["theses"].as_array().unwrap().len();
    let all = found(&here.search(path).await);
    assert!(all > 0);
    let second = Second::start(service);
    let there = here.moved_to(&second.edge.address("http"));
    // First it indexes all that other tests have written so far.
    let first = eventually("it searches", 9 * SOON, async || {
        let answer = there.get(path).await;
        if answer.status == 503 {
            answer.error(503, "SERVICE_UNAVAILABLE");
            assert!(answer.number("retry-after") > 0);
            return None;
        }
        Some(answer)
    })
    .await;
    assert!(found(&first) >= all, "{} of {all}", found(&first));
}

#[tokio::test]
async fn failed_authentications_are_counted_by_all_replicas() {
    let Some(service) = crate::harness::cluster().await else { return };
    let second = Second::start(service);
    loop {
        let here = service.anonymous().with_key(Some("svc_live_nobody"));
        let there = here.moved_to(&second.edge.address("http")).at(&here.address);
        let minute = now_ms() / 60_000;
        for _ in 0..10 {
            here.get("/v1/me").await.error(401, "INVALID_API_KEY");
            there.get("/v1/me").await.error(401, "INVALID_API_KEY");
        }
        let mut refusals = Vec::new();
        for client in [&here, &there] {
            refusals.push(
                eventually("it is refused", AT_ONCE, async || {
                    Some(client.get("/v1/me").await).filter(|answer| answer.status == 429)
                })
                .await,
            );
        }
        if now_ms() / 60_000 == minute {
            for refusal in refusals {
                refusal.error(429, "RATE_LIMITED");
            }
            return;
        }
    }
}

async fn open(client: &Client) -> reqwest::Response {
    client.request(Method::GET, "/v1/events/stream").send().await.unwrap()
}

async fn usage(client: &Client) -> i64 {
    client.get("/v1/me/usage").await.ok(200)["streams"]["open"].as_i64().unwrap()
}

#[tokio::test]
async fn open_streams_never_exceed_the_plan_over_all_replicas() {
    let Some(service) = crate::harness::cluster().await else { return };
    let second = Second::start(service);
    let project = service.project_on("day").await;
    let here = project.test().await;
    let there = second.client(&here).await;
    let mut opening = JoinSet::new();
    for number in 0..12 {
        let client = if number % 2 == 0 { here.clone() } else { there.clone() };
        opening.spawn(async move { open(&client).await });
    }
    let (mut opened, refused): (Vec<_>, Vec<_>) =
        opening.join_all().await.into_iter().partition(|response| response.status() == 200);
    assert_eq!((opened.len(), refused.len()), (2, 10));
    for response in refused {
        assert_eq!(response.status(), 429);
        let error: serde_json::Value = response.json().await.unwrap();
        assert_eq!(error["error"]["code"], "STREAM_LIMIT_REACHED");
        assert_eq!(error["error"]["details"], json!({"limit": 2, "open": 2}));
    }
    assert_eq!((usage(&here).await, usage(&there).await), (2, 2));
    // A larger plan acts on both from the next stream on.
    let mut admin = service.admin();
    let id = project.organization.id.clone();
    admin.set_organization_plan(v1::SetOrganizationPlanRequest { id: id.clone(), plan: "week".into() }).await.unwrap();
    opened.push(eventually("the plan acts there", SOON, async || Some(open(&there).await).filter(is_open)).await);
    admin.set_organization_plan(v1::SetOrganizationPlanRequest { id, plan: "day".into() }).await.unwrap();
    eventually("the plan acts there again", SOON, async || (!is_open(&open(&there).await)).then_some(())).await;
    drop(opened);
    eventually("all places are free", SOON, async || (usage(&here).await == 0).then_some(())).await;

    // The places of a dead core return when its lease has ended, not before.
    let mut lost = [there.stream("").await, there.stream("").await];
    second.core.signal("KILL");
    let killed = Instant::now();
    for stream in &mut lost {
        stream.end(Duration::from_secs(5)).await;
    }
    assert_eq!(usage(&here).await, 2);
    let _stream = eventually("its places return", SOON, async || Some(open(&here).await).filter(is_open)).await;
    let after = killed.elapsed();
    println!("a dead core's place was free again after {after:?}");
    assert!(after > Duration::from_secs(7), "{after:?}");

    // A core that stops gives its places back; others look twice a second.
    let mut third = Second::start(service);
    let there = third.client(&here).await;
    let mut stream = there.stream("").await;
    third.core.signal("TERM");
    stream.end(Duration::from_secs(5)).await;
    third.core.exit(SOON).await;
    let soon = Duration::from_secs(3);
    eventually("its place is free", soon, async || (usage(&here).await == 1).then_some(())).await;
}

fn is_open(response: &reqwest::Response) -> bool {
    response.status() == 200
}

#[tokio::test]
async fn the_number_of_webhooks_is_exact_when_replicas_race() {
    let Some(service) = crate::harness::cluster().await else { return };
    let second = Second::start(service);
    let here = service.project_on("free").await.test().await;
    let there = second.client(&here).await;
    let mut making = JoinSet::new();
    for number in 0..12 {
        let client = if number % 2 == 0 { here.clone() } else { there.clone() };
        let body = json!({"url": "http://127.0.0.1:9999/hook", "events": ["thesis.created"]});
        making.spawn(async move { client.post("/v1/webhooks", &body).await });
    }
    let answers: Vec<Answer> = making.join_all().await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!((made.len(), refused.len()), (3, 9));
    for answer in refused {
        answer.error(403, "WEBHOOK_LIMIT_REACHED");
    }
    assert_eq!(here.all("/v1/webhooks").await.len(), 3);
}

#[tokio::test]
async fn what_an_operator_changes_acts_on_every_replica_at_once() {
    let Some(service) = crate::harness::cluster().await else { return };
    let second = Second::start(service);
    let acts = async |what: &str, client: &Client, status: u16, code: &str| {
        let answer = eventually(what, AT_ONCE, async || {
            Some(client.get("/v1/me").await).filter(|answer| answer.status == status)
        });
        answer.await.error(status, code);
    };
    let project = service.project().await;
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let revoked = second.client(&key.client).await;
    let live = second.client(&project.live().await).await;
    let other = second.client(&project.test().await).await;
    let mut streams = [revoked.stream("").await, live.stream("").await, other.stream("").await];

    let limit = async || other.get("/v1/me").await.number("x-ratelimit-limit");
    assert_eq!(limit().await, 1_200);
    let plan = v1::SetOrganizationPlanRequest { id: project.organization.id.clone(), plan: "pro".into() };
    service.admin().set_organization_plan(plan).await.unwrap();
    eventually("the plan acts there", AT_ONCE, async || (limit().await == 600).then_some(())).await;

    project.revoke(&key).await;
    streams[0].end(AT_ONCE).await;
    acts("the revocation acts there", &revoked, 401, "API_KEY_REVOKED").await;
    project.withdraw().await;
    streams[1].end(AT_ONCE).await;
    acts("the withdrawal acts there", &live, 403, "LIVE_ACCESS_NOT_APPROVED").await;
    other.get("/v1/me").await.ok(200);
    project.archive().await;
    streams[2].end(AT_ONCE).await;
    acts("the archiving acts there", &other, 403, "PROJECT_ARCHIVED").await;
}

#[tokio::test]
async fn logs_go_on_when_the_core_that_owns_them_is_killed() {
    let Some(service) = crate::harness::cluster().await else { return };
    let second = Second::start(service);
    // Some of these logs are the second core's.
    let mut projects = Vec::new();
    for _ in 0..8 {
        let project = service.project().await;
        let here = project.test().await;
        let there = second.client(&here).await;
        let stream = here.stream("").await;
        projects.push((project, here, there, stream));
    }
    let mut posted = vec![Vec::new(); projects.len()];
    for round in 0..6 {
        if round == 3 {
            second.core.signal("KILL");
        }
        for ((_, here, there, _), posted) in projects.iter().zip(&mut posted) {
            let client = if round < 3 && round % 2 == 1 { there } else { here };
            let began = Instant::now();
            let (thesis, _) = client.thesis("writer", "OWNED", &format!("round {round}")).await;
            if round == 3 {
                println!("answered after {:?} beside a dead core", began.elapsed());
            }
            posted.push(text(&thesis, "id").to_owned());
        }
    }
    for ((project, here, _, stream), posted) in projects.iter_mut().zip(&posted) {
        let mut heard = Vec::new();
        while heard.len() < posted.len() {
            let frame = stream.next_of("thesis.created").await;
            heard.push(text(&frame.data["data"], "thesis_id").to_owned());
        }
        assert_eq!(heard, *posted);
        // What the dead core owed is derived: one pair for a token in five seconds, the last one after the last thesis.
        eventually("all is derived", 3 * SOON, async || {
            let newest = here.get("/v1/events?types=token.activity,thesis.created&limit=1").await.ok(200);
            (newest["data"][0]["type"] == "token.activity").then_some(())
        })
        .await;
        let log = service.check_log(&project.dataset()).await;
        assert_eq!((log.head, log.gaps, log.duplicates), (log.entries, 0, 0));
    }
}

//! Hundreds of streams of all transports under a steady write load. Each is opened again and again, with its last
//! cursor, at another replica over another transport, while readers dawdle, keys are revoked and processes are killed.
//! Each must get exactly its events, in the order of the log and once, or be told a gap that lists them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use thesis_proto::v1::Environment;
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::transport::{Filter, Told, Transport};
use crate::harness::{ALL_SCOPES, Client, Dice, Key, Project, SOON, Service, eventually, nodes, now_ms, text};

/// Streams open at once, in equal parts of these projects.
const STREAMS: u64 = 300;
const PROJECTS: u64 = 4;
/// Events a second, all projects together.
const WRITES: u32 = 40;
/// Keys of each project.
const KEYS: usize = 3;
/// Tokens and handles that the events are about.
const TOKENS: u64 = 6;
const HANDLES: u64 = 4;
/// Longer than the pause between two signs of life.
const SILENCE: Duration = Duration::from_secs(20);
/// Longest time until a revoked key's streams tell no new event.
const REVOKED_WITHIN_MS: i64 = 5_000;
/// Longest wait for the last events at the end.
const REST: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn streams_miss_nothing_in_one_process_on_the_embedded_store() {
    streams_miss_nothing(Service::embedded(|setup| setup)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn streams_miss_nothing_in_two_of_each_role_on_a_cluster() {
    streams_miss_nothing(Service::of_replicas(2, &nodes().expect("TEST_SCYLLA_NODES"), false).await).await;
}

/// A project, its keys, and where it can be reached.
struct Customer {
    project: Project,
    keys: Mutex<Vec<Key>>,
    /// When keys were revoked, by their clients' keys.
    revoked: Mutex<HashMap<String, i64>>,
    edges: Vec<String>,
    cores: Vec<String>,
}

impl Customer {
    async fn new(service: &Service) -> Self {
        let project = service.project_on("huge").await;
        let mut keys = Vec::new();
        for _ in 0..KEYS {
            keys.push(project.key(Environment::Test, ALL_SCOPES).await);
        }
        let (edges, cores) = (service.edges.clone(), service.cores.clone());
        Self { project, keys: Mutex::new(keys), revoked: Mutex::default(), edges, cores }
    }

    /// A client with one of its keys, at one of the edges.
    fn client(&self, dice: &mut Dice) -> Client {
        let keys = self.keys.lock().unwrap();
        let key = &keys[dice.below(keys.len())];
        key.client.moved_to(&self.edges[dice.below(self.edges.len())])
    }

    /// Replaces one of its keys.
    async fn revoke_one(&self, dice: &mut Dice) {
        let new = async || self.project.try_key(Environment::Test, ALL_SCOPES, None).await.ok();
        let new = eventually("a new key", SOON, new).await;
        let old = {
            let mut keys = self.keys.lock().unwrap();
            let place = dice.below(keys.len());
            std::mem::replace(&mut keys[place], new)
        };
        eventually("an answer", SOON, async || self.project.try_revoke(&old).await.ok()).await;
        self.revoked.lock().unwrap().insert(old.raw, now_ms());
    }

    /// Writes events until told to end. A failed write may have happened: the log is asked at the end.
    async fn write(self: Arc<Self>, mut dice: Dice, end: CancellationToken) {
        let mut every = interval(Duration::from_secs(1) * u32::try_from(PROJECTS).unwrap() / WRITES);
        let mut number = 0;
        while end.run_until_cancelled(every.tick()).await.is_some() {
            number += 1;
            let body = json!({
                "handle": format!("reader{}", dice.roll(HANDLES)),
                "token": format!("FLOW{}", dice.roll(TOKENS)),
                "text": format!("number {number}"),
            });
            let request = self.client(&mut dice).request(reqwest::Method::POST, "/v1/test/theses").json(&body);
            let _may_fail = request.timeout(Duration::from_secs(5)).send().await;
        }
    }
}

/// What one reader got over all its streams.
#[derive(Default)]
struct Seen {
    /// It has a cursor, so nothing after it may be missed.
    begun: bool,
    events: Vec<String>,
    /// Events that a gap listed.
    listed: HashSet<String>,
    openings: usize,
    gaps: usize,
}

/// A reader of one filter.
struct Reader {
    customer: Arc<Customer>,
    filter: Filter,
    seen: Mutex<Seen>,
    /// Reads no slower than it can, and does not leave.
    hurry: CancellationToken,
}

impl Reader {
    async fn read(self: Arc<Self>, mut dice: Dice) {
        let mut cursor: Option<String> = None;
        loop {
            let client = self.customer.client(&mut dice);
            let core = &self.customer.cores[dice.below(self.customer.cores.len())];
            let opening = Transport::open(dice.roll(3), &client, core, &self.filter, cursor.as_deref());
            let Ok(Some(mut stream)) = timeout(SILENCE, opening).await else {
                sleep(Duration::from_millis(200 + dice.roll(800))).await;
                continue;
            };
            self.seen.lock().unwrap().openings += 1;
            let leaves_at = Instant::now() + Duration::from_millis(dice.roll(20_000));
            let dawdles = dice.roll(4) == 0;
            while self.hurry.is_cancelled() || Instant::now() < leaves_at {
                let wait = if self.hurry.is_cancelled() { SILENCE } else { SILENCE.min(leaves_at - Instant::now()) };
                match timeout(wait, stream.next()).await {
                    // Nothing came, or it is time to leave.
                    Err(_) => break,
                    Ok(Told::Cursor(reached)) => {
                        self.seen.lock().unwrap().begun = true;
                        cursor = Some(reached);
                    }
                    Ok(Told::Event(reached, id, created_at)) => {
                        let revoked_at = self.customer.revoked.lock().unwrap().get(client.key()).copied();
                        let late = created_at - revoked_at.unwrap_or(created_at);
                        assert!(late <= REVOKED_WITHIN_MS, "told an event of {late} ms after its key was revoked");
                        self.seen.lock().unwrap().events.push(id);
                        cursor = Some(reached);
                    }
                    Ok(Told::Gap(path, reached)) => {
                        self.list(&path, &mut dice).await;
                        cursor = Some(reached);
                    }
                    Ok(Told::End(code)) => {
                        let expected = [None, Some(4001), Some(4008), Some(4500)].contains(&code);
                        assert!(expected, "a socket was closed with {code:?}");
                        break;
                    }
                }
                if dawdles && !self.hurry.is_cancelled() {
                    sleep(Duration::from_millis(dice.roll(400))).await;
                }
            }
        }
    }

    /// Notes the events that a gap lists.
    async fn list(&self, path: &str, dice: &mut Dice) {
        let mut next = path.to_owned();
        let mut listed = HashSet::new();
        loop {
            let answer = self.customer.client(dice).request(reqwest::Method::GET, &next).send().await;
            let page: serde_json::Value = match answer {
                Ok(answer) if answer.status() == 200 => answer.json().await.unwrap(),
                _ => {
                    sleep(Duration::from_millis(500)).await;
                    continue;
                }
            };
            listed.extend(page["data"].as_array().unwrap().iter().map(|event| text(event, "id").to_owned()));
            match page["next_cursor"].as_str() {
                Some(cursor) => next = format!("{path}&cursor={cursor}"),
                None => break,
            }
        }
        let mut seen = self.seen.lock().unwrap();
        seen.gaps += 1;
        seen.listed.extend(listed);
    }

    /// The events that it should have got, from the oldest on.
    async fn expected(&self, client: &Client) -> Vec<String> {
        let events = client.all(&format!("/v1/events{}&limit=100", self.filter.query())).await;
        events.iter().rev().map(|event| text(event, "id").to_owned()).collect()
    }

    /// Demands these events, each once and in order; some may follow that came later.
    async fn judge(&self, expected: &[String]) -> usize {
        let last = expected.last().expect("each filter lets some events through");
        let all = async || {
            let seen = self.seen.lock().unwrap();
            (seen.events.iter().rev().any(|id| id == last) || seen.listed.contains(last)).then_some(())
        };
        eventually(&format!("the last event at a reader of {}", self.filter.query()), REST, all).await;
        let seen = self.seen.lock().unwrap();
        let got: HashSet<&String> = seen.events.iter().collect();
        assert_eq!(got.len(), seen.events.len(), "an event came twice");
        let lost = expected.iter().filter(|id| !got.contains(id) && !seen.listed.contains(*id)).count();
        assert_eq!(lost, 0, "events were lost after {} openings", seen.openings);
        let in_time = seen.events.iter().position(|id| id == last).map_or(seen.events.len(), |place| place + 1);
        let in_order = expected.iter().filter(|id| got.contains(id));
        assert!(in_order.eq(&seen.events[..in_time]), "events came out of order, or others came");
        seen.openings
    }
}

async fn streams_miss_nothing(mut service: Service) {
    let mut dice = Dice::new();
    let (hurry, end) = (CancellationToken::new(), CancellationToken::new());
    let (mut readers, mut tasks, mut writers) = (Vec::new(), JoinSet::new(), JoinSet::new());
    let mut customers = Vec::new();
    for _ in 0..PROJECTS {
        let customer = Arc::new(Customer::new(&service).await);
        for number in 0..STREAMS / PROJECTS {
            let reader = Reader {
                customer: Arc::clone(&customer),
                filter: filter(number),
                seen: Mutex::default(),
                hurry: hurry.clone(),
            };
            let reader = Arc::new(reader);
            tasks.spawn(Arc::clone(&reader).read(dice.another()));
            readers.push(reader);
        }
        customers.push(customer);
    }
    let begun = async || readers.iter().all(|reader| reader.seen.lock().unwrap().begun).then_some(());
    eventually("a cursor at every reader", REST, begun).await;
    for customer in &customers {
        writers.spawn(Arc::clone(customer).write(dice.another(), end.clone()));
    }
    let started = Instant::now();
    for kill in 1.. {
        sleep(Duration::from_millis(4_000 + dice.roll(6_000))).await;
        let index = dice.below(service.processes.len());
        let role = service.processes[index].ready["role"].as_str().unwrap().to_owned();
        service.kill_and_start(index).await;
        service.is_ready().await;
        customers[dice.below(customers.len())].revoke_one(&mut dice).await;
        println!("{:>4} s: kill {kill}, {role}; a key revoked", started.elapsed().as_secs());
        if started.elapsed() > super::time() {
            break;
        }
        // None ends by itself but by a failed demand.
        if let Some(ended) = tasks.try_join_next() {
            ended.unwrap();
        }
    }
    end.cancel();
    writers.join_all().await;
    hurry.cancel();
    service.is_ready().await;
    service.say_troubles();
    if let Some(ended) = tasks.try_join_next() {
        ended.unwrap();
    }
    let (mut openings, mut events, mut gaps) = (0, 0, 0);
    let mut lists = HashMap::new();
    for reader in &readers {
        let list = (Arc::as_ptr(&reader.customer), reader.filter.query());
        if !lists.contains_key(&list) {
            lists.insert(list.clone(), reader.expected(&reader.customer.client(&mut dice)).await);
        }
        openings += reader.judge(&lists[&list]).await;
        let seen = reader.seen.lock().unwrap();
        (events, gaps) = (events + seen.events.len(), gaps + seen.gaps);
    }
    if let Some(ended) = tasks.try_join_next() {
        ended.unwrap();
    }
    println!(
        "{STREAMS} readers got {events} events, each once and in order, opened {openings} times, {gaps} gaps told"
    );
}

/// One of several filters.
fn filter(number: u64) -> Filter {
    let token = |number: u64| format!("FLOW{}", number % TOKENS);
    let handle = |number: u64| format!("reader{}", number % HANDLES);
    let all = Filter { tokens: (0..TOKENS).map(token).collect(), ..Filter::default() };
    match number % 4 {
        0 => all,
        1 => Filter { tokens: vec![token(number / 4)], created: true, ..Filter::default() },
        2 => Filter { handles: vec![handle(number / 4)], created: true, ..Filter::default() },
        _ => Filter {
            tokens: vec![token(number / 4), token(number / 4 + 1)],
            handles: vec![handle(number / 4), handle(number / 4 + 1)],
            created: true,
        },
    }
}

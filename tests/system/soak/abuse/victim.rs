//! Another customer beside an attack: reads, follows a stream and signs in at a constant rate, and measures each
//! answer.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use thesis_proto::v1;
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep, timeout},
};

use crate::harness::{Client, Person, Service, Sse, eventually, person::Accounts, text};

/// The customer's activities, in the order of a measurement.
pub(super) const ACTIVITIES: [&str; 3] = ["read", "event", "sign-in"];
const READ: usize = 0;
const EVENT: usize = 1;
const SIGN_IN: usize = 2;

/// Fifty reads a second.
const READ_INTERVAL: Duration = Duration::from_millis(20);
/// The interval of theses that must arrive on the stream, and of sign-ins.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// Time in which everything must be answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the memory is read.
const MEMORY_INTERVAL: Duration = Duration::from_millis(100);
/// Sign-ins of one person. The service allows 30 an hour.
const SIGN_INS_OF_PERSON: usize = 25;
/// People who sign in, one after another: enough for the warm-up and eight measurements.
const PEOPLE: usize = 4;

/// Times of the requests that were sent in one stretch of time.
#[derive(Default)]
struct Window {
    times: Mutex<[Vec<Duration>; 3]>,
}

/// The results of a customer's requests.
#[derive(Default)]
struct Record {
    /// The window of requests that are sent now. A request holds its window until its answer.
    window: Mutex<Arc<Window>>,
    failures: Mutex<Vec<String>>,
}

impl Record {
    /// Does something, and records its time and its failure.
    async fn measure(&self, activity: usize, work: impl Future<Output = Result<(), String>>) {
        let window = Arc::clone(&self.window.lock().unwrap());
        let began = Instant::now();
        let outcome = timeout(ANSWER_TIMEOUT, work).await.unwrap_or_else(|_| Err("no answer".to_owned()));
        window.times.lock().unwrap()[activity].push(began.elapsed());
        if let Err(failure) = outcome {
            self.failures.lock().unwrap().push(format!("{}: {failure}", ACTIVITIES[activity]));
        }
    }
}

/// The result of one stretch of time.
pub(super) struct Measurement {
    /// The p99 of each activity. Of ten events or sign-ins it is the slowest.
    pub(super) p99: [Duration; 3],
    /// Most resident memory of the service.
    pub(super) memory_mib: u64,
}

/// A customer whose activities have begun.
pub(super) struct Victim {
    /// The e-mail of the person who signs in before, during and right after the attack.
    pub(super) account: String,
    record: Arc<Record>,
    activities: JoinSet<()>,
}

impl Victim {
    /// A customer with a project and people of their own begins all activities.
    pub(super) async fn start(service: &Service) -> Self {
        let client = service.project_on("huge").await.test().await;
        let thesis = client.thesis("victim", "READ", "one that is read").await.0;
        let paths = [format!("/v1/theses/{}", text(&thesis, "id")), "/v1/theses?token=READ&limit=10".to_owned()];
        let mut people = Vec::new();
        for _ in 0..PEOPLE {
            people.push(service.owner().await.0);
        }
        let stream = client.stream("?types=thesis.created").await;
        let (account, record) = (people[0].email.clone(), Arc::<Record>::default());
        let mut activities = JoinSet::new();
        activities.spawn(read(client.clone(), paths, Arc::clone(&record)));
        activities.spawn(follow(client, stream, Arc::clone(&record)));
        activities.spawn(sign_in(people, Arc::clone(&record)));
        Self { account, record, activities }
    }

    /// Measures the requests that the customer sends in this time, and waits for their answers.
    pub(super) async fn measure(&mut self, service: &Service, time: Duration) -> Measurement {
        let window = Arc::<Window>::default();
        *self.record.window.lock().unwrap() = Arc::clone(&window);
        let (began, mut memory_mib) = (Instant::now(), 0);
        while began.elapsed() < time {
            sleep(MEMORY_INTERVAL).await;
            memory_mib = memory_mib.max(service.processes[0].resident_mib());
        }
        *self.record.window.lock().unwrap() = Arc::default();
        let is_answered = async || (Arc::strong_count(&window) == 1).then_some(());
        eventually("every request is answered", 2 * ANSWER_TIMEOUT, is_answered).await;
        // An activity ends by a panic alone.
        while let Some(ended) = self.activities.try_join_next() {
            ended.unwrap();
        }
        let p99 = window.times.lock().unwrap().each_ref().map(|times| p99(times));
        Measurement { p99, memory_mib }
    }

    /// Ends all activities; gives every failure, refusals included.
    pub(super) fn end(self) -> Vec<String> {
        std::mem::take(&mut *self.record.failures.lock().unwrap())
    }
}

fn p99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[(times.len() * 99 / 100).min(times.len() - 1)]
}

/// Sends a request whose answer must have this status.
async fn send(request: RequestBuilder, status: u16) -> Result<(), String> {
    let answer = request.send().await.map_err(|error| error.to_string())?;
    let found = answer.status().as_u16();
    let body = answer.text().await.map_err(|error| error.to_string())?;
    if found == status { Ok(()) } else { Err(format!("{found} {body}")) }
}

/// Reads at its rate, whatever happens to earlier requests.
async fn read(client: Client, paths: [String; 2], record: Arc<Record>) {
    let mut every = interval(READ_INTERVAL);
    let mut sent = JoinSet::new();
    for number in 0_usize.. {
        every.tick().await;
        let (request, record) = (client.request(Method::GET, &paths[number % 2]), Arc::clone(&record));
        sent.spawn(async move { record.measure(READ, send(request, 200)).await });
        while let Some(ended) = sent.try_join_next() {
            ended.unwrap();
        }
    }
}

/// Posts theses and waits for each on the stream.
async fn follow(client: Client, mut stream: Sse, record: Arc<Record>) {
    let mut every = interval(SLOW_INTERVAL);
    for number in 0_u64.. {
        every.tick().await;
        let said = number.to_string();
        let body = json!({"handle": "victim", "token": "EVENT", "text": said});
        let request = client.request(Method::POST, "/v1/test/theses").json(&body);
        let arrives = async {
            send(request, 201).await?;
            while stream.read().await.ok_or("the stream ended")?.data["data"]["text"] != said {}
            Ok::<_, String>(())
        };
        record.measure(EVENT, arrives).await;
    }
}

/// Signs in on known devices.
async fn sign_in(people: Vec<Person>, record: Arc<Record>) {
    let mut every = interval(SLOW_INTERVAL);
    for number in 0_usize.. {
        every.tick().await;
        let (mut accounts, request) = request_of(&people[number / SIGN_INS_OF_PERSON % people.len()]);
        let signs_in = async {
            let answer = accounts.sign_in(request).await;
            answer.map(drop).map_err(|status| status.message().to_owned())
        };
        record.measure(SIGN_IN, signs_in).await;
    }
}

/// A request to sign in on the person's device, and a client that sends it.
fn request_of(person: &Person) -> (Accounts, v1::SignInRequest) {
    let (email, password) = (person.email.clone(), person.password.clone());
    let request = v1::SignInRequest { email, password, user_agent: None, device: person.device.clone() };
    (person.ask(), request)
}

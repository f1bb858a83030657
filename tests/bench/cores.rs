//! `cargo bench --bench service -- cores --store cql --nodes HOST:PORT`: what a core asks of its cluster for datasets
//! that were written once, when it starts, while nobody uses them, and while clients listen to some of them. Webhooks that
//! want nothing are there all the time. `--datasets 100000 --webhooks 100000 --streams 10000` is the load of the aims.

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use thesis_proto::v1::{self, Environment};
use tokio::time::{Instant, sleep};

use crate::{
    Failure, Options, StoreKind,
    calls::{self, thesis},
    connection::{Connection, find, get},
    process::{PLAN_NAME, Service, allow_files},
    report::{aim_below, number, row},
    store::Setup,
    webhooks::{Unwanted, create_unwanted},
};

/// Calls under way at once while datasets are written.
const CALLS: usize = 32;
/// Longest wait until the core rests; its writers end 40 s after the last thesis.
const REST_TIMEOUT: Duration = Duration::from_mins(3);
/// How long a core is watched to see whether it rests.
const WATCHED: Duration = Duration::from_secs(5);
/// How long a core that was just started is left alone, so that what it does later counts as its start.
const AFTER_START: Duration = Duration::from_secs(5);
/// Time after it until the core is at rest: its first minute has looks of its own.
const AT_REST: Duration = Duration::from_secs(40);
/// How long streams that were just opened are left alone.
const AFTER_OPENING: Duration = Duration::from_secs(10);
/// How long requests are counted.
const COUNTED: Duration = Duration::from_mins(1);
/// Longest start that we aim at, in seconds.
const START: f64 = 2.0;
/// Most requests that a start makes for an unused dataset: none, but for what a beat more or less and the projects of
/// the used ones make.
const FOR_UNUSED: f64 = 0.01;
/// Most requests a second that we aim at, of an idle core, without streams and with idle ones.
const IDLE: f64 = 10.0;

/// What to measure.
#[derive(Args)]
pub(crate) struct Cores {
    /// Datasets that were ever written
    #[arg(long, default_value_t = 10_000)]
    datasets: usize,
    /// Datasets among them to whose events clients listen
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    used: u16,
    /// Streams of these clients
    #[arg(long, default_value_t = 1_000)]
    streams: usize,
    /// Webhooks of other projects that match nothing
    #[arg(long, default_value_t = 10_000)]
    webhooks: usize,
}

/// A project with a key, to whose events a client listens.
struct Customer {
    project: String,
    key: String,
}

/// A start of the service.
struct Start {
    ready_s: f64,
    /// To the store, until it was left alone for a while.
    requests: f64,
}

/// Measures and prints.
pub(crate) async fn run(options: &Options, task: &Cores) -> Result<(), Failure> {
    if options.store != StoreKind::Cql {
        return Err("cores counts the requests to a cluster: it needs --store cql --nodes HOST:PORT".into());
    }
    if usize::from(task.used) > task.datasets {
        return Err("--used is more than --datasets".into());
    }
    allow_files()?;
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let setup = Setup::new(options, StoreKind::Cql, task.datasets as u64, temporary.path())?;
    let measured = measure(&setup, task).await;
    setup.clear().await?;
    measured
}

async fn measure(setup: &Setup, task: &Cores) -> Result<(), Failure> {
    // The first start makes the tables and the first project.
    Service::start(setup).await?.stop().await?;
    create_unwanted(setup, task.webhooks, Unwanted::Tokens).await?;
    let (service, before) = start(setup).await?;
    let customers = customers(&service, task.used.into()).await?;
    let laid_out_s = lay_out(&service, &customers, task.datasets).await?;
    let (rest_s, at_rest) = rest(&service).await?;
    service.stop().await?;

    let (service, after) = start(setup).await?;
    sleep(AT_REST).await;
    let idle = rate(&service, COUNTED).await?;
    let address = service.address("http")?;
    let mut streams = Vec::with_capacity(task.streams);
    for customer in customers.iter().cycle().take(task.streams) {
        streams.push(listen(address, &customer.key).await?);
    }
    sleep(AFTER_OPENING).await;
    let listening = rate(&service, COUNTED).await?;
    drop(streams);
    service.stop().await?;

    let (datasets, used) = (number(task.datasets as f64), task.used);
    println!(
        "\n{datasets} datasets ever written, one thesis each, {used} of them in use; {} webhooks; {}",
        number(task.webhooks as f64),
        setup.kind()
    );
    row(&["", "measured", "aim"]);
    let seconds = |seconds: f64| format!("{seconds:.2} s");
    row(&["laid out in", &seconds(laid_out_s)]);
    row(&["at rest after", &seconds(rest_s), &format!("{} requests/s", number(at_rest))]);
    row(&["ready without them", &seconds(before.ready_s)]);
    row(&["ready with them", &seconds(after.ready_s), &aim_below(after.ready_s, START, " s")]);
    row(&["store requests of a start without", &number(before.requests)]);
    row(&["store requests of a start with", &number(after.requests)]);
    let each = (after.requests - before.requests).max(0.0) / task.datasets.max(1) as f64;
    row(&["  more, a dataset", &format!("{each:.4}"), &aim_below(each, FOR_UNUSED, "")]);
    row(&["store requests/s, idle", &number(idle), &aim_below(idle, IDLE, "")]);
    let name = format!("store requests/s, {} streams", number(task.streams as f64));
    row(&[&name, &number(listening), &aim_below(listening, IDLE, "")]);
    Ok(())
}

/// Starts the service.
async fn start(setup: &Setup) -> Result<(Service, Start), Failure> {
    let service = Service::start(setup).await?;
    sleep(AFTER_START).await;
    let start = Start { ready_s: service.ready_ms / 1e3, requests: service.store_requests().await? };
    Ok((service, start))
}

/// Makes projects with a test key each.
async fn customers(service: &Service, count: usize) -> Result<Vec<Customer>, Failure> {
    let mut operator = calls::operator(service).await?;
    let request = v1::CreateOrganizationRequest { name: "Benchmark".to_owned(), plan: Some(PLAN_NAME.to_owned()) };
    let made = operator.create_organization(request).await?.into_inner();
    let organization_id = made.organization.unwrap_or_default().id;
    let mut customers = Vec::with_capacity(count);
    for number in 0..count {
        let (organization_id, name) = (organization_id.clone(), format!("Used {number}"));
        let made = operator.create_project(v1::CreateProjectRequest { organization_id, name }).await?.into_inner();
        let project = made.project.unwrap_or_default().id;
        let request = v1::CreateKeyRequest {
            project_id: project.clone(),
            environment: Environment::Test.into(),
            name: "streams".to_owned(),
            scopes: ["theses:read", "events:read", "streams:read"].map(str::to_owned).to_vec(),
            expires_at: None,
            allowed_addresses: Vec::new(),
        };
        let key = operator.create_key(request).await?.into_inner().key;
        customers.push(Customer { project, key });
    }
    Ok(customers)
}

/// Brings a thesis into each dataset, those of the customers among them; gives the seconds it took.
async fn lay_out(service: &Service, customers: &[Customer], datasets: usize) -> Result<f64, Failure> {
    let ingest = calls::ingest(service).await?;
    let (started, mut done) = (Instant::now(), 0_usize);
    // A dataset needs no project to be written.
    let project = |number: usize| {
        let used = customers.get(number).map(|customer| customer.project.clone());
        used.unwrap_or_else(|| format!("prj_unused{number}"))
    };
    stream::iter(0..datasets)
        .map(|number| {
            let (mut ingest, dataset) = (ingest.clone(), format!("project/{}", project(number)));
            let request = v1::IngestRequest { dataset, observations: vec![thesis(number as u64)] };
            async move { ingest.ingest(request).await.map(drop) }
        })
        .buffer_unordered(CALLS)
        .try_for_each(|()| {
            done += 1;
            if done.is_multiple_of(1_000) {
                eprintln!("wrote {done} datasets after {:.1} s", started.elapsed().as_secs_f64());
            }
            std::future::ready(Ok(()))
        })
        .await?;
    Ok(started.elapsed().as_secs_f64())
}

/// Waits until the core asks its store for no more than an idle one may; gives the seconds it took, and the requests a
/// second then.
async fn rest(service: &Service) -> Result<(f64, f64), Failure> {
    let started = Instant::now();
    loop {
        let rate = rate(service, WATCHED).await?;
        if rate <= IDLE || started.elapsed() > REST_TIMEOUT {
            return Ok((started.elapsed().as_secs_f64(), rate));
        }
    }
}

/// Requests to the store a second, over some time.
async fn rate(service: &Service, over: Duration) -> Result<f64, Failure> {
    let before = service.store_requests().await?;
    let started = Instant::now();
    sleep(over).await;
    let made = service.store_requests().await? - before;
    Ok(made / started.elapsed().as_secs_f64())
}

/// Opens a stream of all events that a key sees; it ends when its connection is dropped.
async fn listen(address: SocketAddr, key: &str) -> Result<Connection, Failure> {
    let mut connection = Connection::open(address).await?;
    connection.send(&get("/v1/events/stream", key)).await?;
    let head = loop {
        let answer = connection.more().await?;
        if find(answer, b"\r\n\r\n").is_some() {
            break String::from_utf8_lossy(answer).into_owned();
        }
    };
    if head.starts_with("HTTP/1.1 200 ") { Ok(connection) } else { Err(format!("a stream was refused: {head}").into()) }
}

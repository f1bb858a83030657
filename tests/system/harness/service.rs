//! A running service, on either store, shared by the tests.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use reqwest::StatusCode;
use serde_json::Value;
use tempfile::TempDir;
use thesis_proto::v1::{self, admin_service_client::AdminServiceClient};
use tokio::{sync::OnceCell, task::spawn_blocking};
use tonic::{
    Request, Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use super::{Client, Process, Project, SOON, Setup, Store, eventually, fetch, now_ms};

/// A test key that exists on every service.
pub(crate) const TEST_KEY: &str = "svc_test_SystemTests0123456789ABCDEFGHIJKLMNOPqrs";
/// A live key that exists on every service.
pub(crate) const LIVE_KEY: &str = "svc_live_SystemTests0123456789ABCDEFGHIJKLMNOPqrs";
/// The credential of the roles.
pub(crate) const SERVICE_TOKEN: &str = "system-tests-service-token-0123456789";
/// 32 bytes.
const SECRET_KEY: &str = "c3lzdGVtLXRlc3RzLXNlY3JldC1rZXktMDEyMzQ1Njc=";

/// The built-in plans, and small ones whose limits a test reaches.
const PLANS: &str = concat!(include_str!("../../../src/plans.toml"), "\n", include_str!("plans.toml"));

/// Client of the operators' commands.
pub(crate) type Admin = AdminServiceClient<InterceptedService<Channel, fn(Request<()>) -> Result<Request<()>, Status>>>;

/// A running service.
pub(crate) struct Service {
    /// Base URL of REST, of the first edge.
    pub(crate) http: String,
    /// Base URLs of all edges.
    pub(crate) edges: Vec<String>,
    /// Base URL of gRPC with all services, of the first core.
    pub(crate) grpc: String,
    /// Base URLs of all cores.
    pub(crate) cores: Vec<String>,
    /// Its processes.
    pub(crate) processes: Vec<Process>,
    /// How each was started.
    setups: Vec<Setup>,
    /// The folder of its data; other settings of a start are in `setup`.
    pub(crate) dir: TempDir,
    /// How its core was started.
    pub(crate) setup: Setup,
}

/// The service in one process on the embedded store that most tests share.
pub(crate) async fn embedded() -> &'static Service {
    static SERVICE: OnceCell<Service> = OnceCell::const_new();
    SERVICE.get_or_init(async || Service::embedded(|setup| setup)).await
}

/// The service as two processes of each role on the cluster that `TEST_SCYLLA_NODES` names, in a keyspace of this run.
pub(crate) async fn cluster() -> Option<&'static Service> {
    static SERVICE: OnceCell<Option<Service>> = OnceCell::const_new();
    let service = SERVICE.get_or_init(async || Service::cluster().await).await;
    if service.is_none() {
        println!("left out: TEST_SCYLLA_NODES names no CQL cluster");
    }
    service.as_ref()
}

/// The nodes that `TEST_SCYLLA_NODES` names, comma-separated, if it names any.
pub(crate) fn nodes() -> Option<String> {
    std::env::var("TEST_SCYLLA_NODES").ok().filter(|nodes| !nodes.is_empty())
}

fn setup(dir: &TempDir) -> Setup {
    let plans = dir.path().join("plans.toml");
    std::fs::write(&plans, PLANS).unwrap();
    Setup::new(dir.path())
        .set("SVC_SECRET_KEY", SECRET_KEY)
        .set("SVC_LOG_KEY", SECRET_KEY)
        .set("SVC_SERVICE_TOKEN", SERVICE_TOKEN)
        .set("SVC_BOOTSTRAP_TEST_KEY", TEST_KEY)
        .set("SVC_BOOTSTRAP_LIVE_KEY", LIVE_KEY)
        .set("SVC_PLANS_FILE", plans.to_str().unwrap())
        // The cores of a cluster share it.
        .set("SVC_ARCHIVE_URL", &format!("file://{}", dir.path().join("archive").display()))
        // Lets every client of the tests have an address of its own.
        .set("SVC_TRUSTED_PROXIES", "127.0.0.0/8")
}

/// Adds the credential of the roles to a call.
pub(super) fn credential(mut request: Request<()>) -> Result<Request<()>, Status> {
    request.metadata_mut().insert("x-service-token", SERVICE_TOKEN.parse().unwrap());
    Ok(request)
}

/// Makes each core learn all that any has acknowledged.
pub(super) async fn settle(cores: &[String]) {
    for core in cores {
        let channel = Endpoint::from_shared(core.clone()).unwrap().connect_lazy();
        let mut admin: Admin = AdminServiceClient::with_interceptor(channel, credential);
        admin.list_organizations(v1::ListOrganizationsRequest {}).await.unwrap();
    }
}

/// The data folder of a cluster's core: each core needs its own.
fn core_folder(dir: &Path, number: usize) -> String {
    dir.join(format!("core-{number}")).display().to_string()
}

/// Starts processes at the same moment.
fn start_all(setups: &[Setup]) -> Vec<Process> {
    std::thread::scope(|scope| {
        let starting: Vec<_> = setups.iter().map(|setup| scope.spawn(|| setup.start())).collect();
        starting.into_iter().map(|starting| starting.join().unwrap()).collect()
    })
}

impl Service {
    /// A service of its own in one process on the embedded store, with settings of its own.
    pub(crate) fn embedded(settings: impl FnOnce(Setup) -> Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let setup = settings(setup(&dir));
        let process = setup.start();
        // A core alone has no REST.
        let http = process.ready["http"].as_str().unwrap_or_default().to_owned();
        let grpc = process.core_address();
        let (edges, cores) = (vec![http.clone()], vec![grpc.clone()]);
        Self { http, edges, grpc, cores, processes: vec![process], setups: vec![setup.clone()], dir, setup }
    }

    /// A service of its own on the cluster that `TEST_SCYLLA_NODES` names, in a keyspace of its own.
    pub(crate) async fn cluster() -> Option<Self> {
        Some(Self::of_replicas(2, &nodes()?, true).await)
    }

    /// A service of its own on a store, with settings of its own: one process, or one of each role.
    pub(crate) async fn on(store: &Store, settings: impl Fn(Setup) -> Setup) -> Self {
        match store {
            Store::Embedded => Self::embedded(settings),
            Store::Cluster(nodes) => Self::of_replicas_with(1, nodes, true, settings).await,
        }
    }

    /// A service of `each` processes of each role on CQL nodes, in a keyspace of its own. Cores come first in
    /// `processes`, then edges, then workers. With `apart`, each edge knows one core only, so that a client of one edge
    /// stays with one core.
    pub(crate) async fn of_replicas(each: usize, nodes: &str, apart: bool) -> Self {
        Self::of_replicas_with(each, nodes, apart, |setup| setup).await
    }

    /// The same with settings of its own for the cores. All roles have the cores' program.
    pub(crate) async fn of_replicas_with(
        each: usize,
        nodes: &str,
        apart: bool,
        settings: impl Fn(Setup) -> Setup,
    ) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::tempdir().unwrap();
        let replicas = nodes.split(',').count().min(3).to_string();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let keyspace = format!("system_{}_{}_{number}", std::process::id(), now_ms());
        let core = settings(setup(&dir))
            .role("core")
            .set("SVC_STORE", "scylla")
            .set("SVC_SCYLLA_NODES", nodes)
            .set("SVC_SCYLLA_KEYSPACE", &keyspace)
            .set("SVC_SCYLLA_REPLICATION_FACTOR", &replicas);
        let in_folder = |number: usize| core.clone().set("SVC_DATA_DIR", &core_folder(dir.path(), number));
        let mut setups: Vec<Setup> = (0..each).map(in_folder).collect();
        // At once, against an empty keyspace: setup must happen only once.
        let mut processes = start_all(&setups);
        let cores: Vec<String> = processes.iter().map(Process::core_address).collect();
        let all = cores.join(",");
        let role = |role: &str, cores: &str| setup(&dir).program_of(&core).role(role).set("SVC_CORE_URL", cores);
        let edges = cores.iter().map(|core| role("edge", if apart { core } else { &all }));
        let others: Vec<Setup> = edges.chain(vec![role("worker", &all); each]).collect();
        processes.extend(start_all(&others));
        setups.extend(others);
        let edges: Vec<String> = processes[each..2 * each].iter().map(|edge| edge.address("http")).collect();
        let (http, grpc) = (edges[0].clone(), cores[0].clone());
        let service = Self { http, edges, grpc, cores, processes, setups, dir, setup: core };
        service.is_ready().await;
        service
    }

    /// The settings of one more core on its cluster.
    pub(crate) fn another_core(&self) -> Setup {
        static NEXT: AtomicUsize = AtomicUsize::new(100);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.setup.clone().set("SVC_DATA_DIR", &core_folder(self.dir.path(), number))
    }

    /// The folder in which its first core keeps the search index.
    pub(crate) fn search_folder(&self) -> PathBuf {
        Path::new(self.setups[0].setting("SVC_DATA_DIR").unwrap()).join("search")
    }

    /// The settings of a core in the data folder of the first one.
    pub(crate) fn core_in_taken_folder(&self) -> Setup {
        self.setup.clone().set("SVC_DATA_DIR", &core_folder(self.dir.path(), 0))
    }

    /// Kills a process with -9 and starts it again, where it listened before.
    pub(crate) async fn kill_and_start(&mut self, index: usize) {
        self.end(index, "KILL").await;
        self.start_again(index).await;
    }

    /// Ends a process by a signal and starts it as another program, where it listened before.
    pub(crate) async fn replace(&mut self, index: usize, signal: &str, program: &Path) {
        self.setups[index] = self.setups[index].clone().program(program);
        self.end(index, signal).await;
        self.start_again(index).await;
    }

    /// Ends a process by a signal, such as `TERM`.
    pub(crate) async fn end(&mut self, index: usize, signal: &str) {
        let process = &mut self.processes[index];
        process.signal(signal);
        process.exit(SOON).await;
    }

    /// Starts a process that has ended, where it listened before.
    pub(crate) async fn start_again(&mut self, index: usize) {
        let process = &self.processes[index];
        let mut setup = self.setups[index].clone();
        for (name, setting) in [
            ("http", "SVC_HTTP_ADDR"),
            ("grpc", "SVC_GRPC_ADDR"),
            ("internal", "SVC_INTERNAL_ADDR"),
            ("ops", "SVC_OPS_ADDR"),
        ] {
            if let Some(url) = process.ready[name].as_str() {
                setup = setup.set(setting, url.strip_prefix("http://").unwrap());
            }
        }
        self.processes[index] = spawn_blocking(move || setup.start()).await.unwrap();
    }

    /// Runs a command to its end, with the credential of the roles; gives its exit code, stdout and stderr.
    pub(crate) async fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let setup = self.setup.clone().set("SVC_CORE_URL", &self.grpc).arguments(arguments);
        spawn_blocking(move || setup.run()).await.unwrap()
    }

    /// Saves its store into a new file of its folder while it runs; gives the file, and what the command told.
    pub(crate) async fn save(&self, name: &str) -> (PathBuf, Value) {
        let file = self.dir.path().join(name);
        let (code, told, error) = self.command(&["admin", "--json", "backup", "--to", file.to_str().unwrap()]).await;
        assert_eq!((code, error.as_str()), (Some(0), ""), "{told}");
        (file, serde_json::from_str(&told).unwrap())
    }

    /// Restores a backup into a new folder of its folder; gives that.
    pub(crate) async fn restore(&self, file: &Path, name: &str) -> PathBuf {
        let copy = self.dir.path().join(name);
        let arguments = ["restore", "--from", file.to_str().unwrap(), "--data-dir", copy.to_str().unwrap()];
        let (code, told, error) = self.command(&arguments).await;
        assert_eq!((code, error.as_str()), (Some(0), ""), "{told}");
        copy
    }

    /// Kills its one process, and starts it on another data folder where it listened before.
    pub(crate) async fn go_on_in(&mut self, data_dir: &Path) {
        self.end(0, "KILL").await;
        self.setups[0] = self.setups[0].clone().set("SVC_DATA_DIR", data_dir.to_str().unwrap());
        self.setup = self.setups[0].clone();
        self.start_again(0).await;
        self.is_ready().await;
    }

    /// Goes on on a copy of its store, restored from a backup that was made while it ran.
    pub(crate) async fn move_to_restored_copy(&mut self) {
        let (file, _) = self.save("moved.backup").await;
        let copy = self.restore(&file, "moved").await;
        self.go_on_in(&copy).await;
    }

    /// Waits until every process says that it is ready.
    pub(crate) async fn is_ready(&self) {
        for process in &self.processes {
            let url = format!("{}/readyz", process.address("ops"));
            eventually("readiness", SOON, async || {
                let answer = fetch(&url).await.ok()?;
                (answer.status() == StatusCode::OK).then_some(())
            })
            .await;
        }
    }

    /// Prints the errors and warnings that its processes logged, most frequent first.
    pub(crate) fn say_troubles(&self) {
        let mut troubles = HashMap::<String, usize>::new();
        for file in std::fs::read_dir(self.dir.path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            for line in std::fs::read_to_string(path).unwrap().lines() {
                let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
                if line["level"] == "ERROR" || line["level"] == "WARN" {
                    let why = ["message", "operation", "error", "status", "code", "reason"].map(|name| &line[name]);
                    let why: Vec<String> = why.iter().filter_map(|value| Some(value.as_str()?.to_owned())).collect();
                    *troubles.entry(why.join(", ").chars().take(300).collect()).or_default() += 1;
                }
            }
        }
        let mut troubles: Vec<_> = troubles.into_iter().collect();
        troubles.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (why, count) in troubles.iter().take(25) {
            println!("{count:>8} times: {why}");
        }
    }

    /// Connections to its gRPC addresses, used in turn.
    pub(crate) fn channel(&self) -> Channel {
        Channel::balance_list(self.cores.iter().map(|core| Endpoint::from_shared(core.clone()).unwrap()))
    }

    /// A connection to the core behind the first edge.
    pub(crate) fn first_core(&self) -> Channel {
        Endpoint::from_shared(self.cores[0].clone()).unwrap().connect_lazy()
    }

    /// The operators' commands.
    pub(crate) fn admin(&self) -> Admin {
        AdminServiceClient::with_interceptor(self.channel(), credential)
    }

    /// Waits until every core knows the operators' changes; without this it knows within a second.
    pub(crate) async fn settle(&self) {
        settle(&self.cores).await;
    }

    /// A client with a key.
    pub(crate) fn client(&self, key: &str) -> Client {
        Client::over(&self.edges, Some(key))
    }

    /// A client without a key.
    pub(crate) fn anonymous(&self) -> Client {
        Client::over(&self.edges, None)
    }

    /// A new project of a new organization on plan `business`.
    pub(crate) async fn project(&self) -> Project {
        self.project_on("business").await
    }

    /// A new project of a new organization on a plan.
    pub(crate) async fn project_on(&self, plan: &str) -> Project {
        Project::create(self, plan).await
    }

    /// A client with a test key of a new project.
    pub(crate) async fn test_client(&self) -> Client {
        self.project().await.test().await
    }

    /// Reads a dataset's whole log.
    pub(crate) async fn check_log(&self, dataset: &str) -> v1::CheckLogResponse {
        let request = v1::CheckLogRequest { dataset: dataset.to_owned() };
        self.admin().check_log(request).await.unwrap().into_inner()
    }
}

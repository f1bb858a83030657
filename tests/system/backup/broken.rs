//! Backups that break off: there is no file, and the next one works.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::large;
use crate::harness::{Process, SERVICE_TOKEN, SOON, Service, Setup, eventually, text};

/// Most bytes of a core's answers that pass until the way is opened; its first piece is much smaller.
const HELD: usize = 8 * 1024;

/// A way to a core that holds answers up.
struct Way {
    url: String,
    open: Arc<watch::Sender<bool>>,
}

impl Way {
    async fn to(service: &Service) -> Self {
        let core = service.grpc.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let open = Arc::new(watch::Sender::new(false));
        let is_open = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, core.clone(), is_open.subscribe()));
            }
        });
        Self { url, open }
    }
}

async fn pass(client: TcpStream, core: String, mut open: watch::Receiver<bool>) {
    let Ok(core) = TcpStream::connect(core).await else { return };
    let ((mut asks, mut hears), (mut told, mut asked)) = (client.into_split(), core.into_split());
    let asking = async move { copy(&mut asks, &mut asked).await.map(drop) };
    let telling = async move {
        let mut first = (&mut told).take(HELD as u64);
        copy(&mut first, &mut hears).await?;
        let _ = open.wait_for(|open| *open).await;
        copy(&mut told, &mut hears).await?;
        hears.shutdown().await
    };
    let _ended = tokio::join!(asking, telling);
}

/// A backup by the command, which came as far as its first piece.
async fn begun(service: &Service, way: &Way, file: &Path) -> Process {
    let setup = Setup::new(service.dir.path()).set("SVC_CORE_URL", &way.url).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
    let arguments = ["admin", "--json", "backup", "--to", file.to_str().unwrap()];
    let (process, _) = setup.arguments(&arguments).start_and_read_lines();
    let part = partial(file);
    eventually("the first piece", SOON, async || fs::metadata(&part).ok().filter(|file| file.len() > 0)).await;
    assert!(!file.exists());
    process
}

fn partial(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.partial", file.display()))
}

#[tokio::test]
async fn a_killed_service_leaves_no_file_and_is_saved_after_its_start() {
    let mut service = large().await;
    let (way, file) = (Way::to(&service).await, service.dir.path().join("killed.backup"));
    let mut command = begun(&service, &way, &file).await;
    service.end(0, "KILL").await;
    way.open.send_replace(true);
    assert_eq!(command.exit(SOON).await.code(), Some(1));
    assert!(!file.exists() && !partial(&file).exists());
    service.start_again(0).await;
    let (file, _) = service.save("killed.backup").await;
    service.restore(&file, "copy").await;
}

#[tokio::test]
async fn a_stopped_service_does_not_wait_for_a_backup() {
    let mut service = large().await;
    let (way, file) = (Way::to(&service).await, service.dir.path().join("stopped.backup"));
    let mut command = begun(&service, &way, &file).await;
    service.processes[0].signal("TERM");
    assert_eq!(service.processes[0].exit(SOON).await.code(), Some(0));
    way.open.send_replace(true);
    assert_eq!(command.exit(SOON).await.code(), Some(1));
    assert!(!file.exists() && !partial(&file).exists());
}

#[tokio::test]
async fn a_killed_command_leaves_a_part_that_names_itself_and_frees_the_place() {
    let service = large().await;
    let (way, file) = (Way::to(&service).await, service.dir.path().join("cut.backup"));
    let mut command = begun(&service, &way, &file).await;
    // Meanwhile there is no second one, neither here nor there.
    let other = service.dir.path().join("other.backup");
    let to = |file: &Path| ["admin", "--json", "backup", "--to", file.to_str().unwrap()].map(str::to_owned);
    let run = async |file: &Path| {
        let arguments = to(file);
        let (code, told, _) = service.command(&arguments.each_ref().map(String::as_str)).await;
        (code, serde_json::from_str::<Value>(&told).unwrap())
    };
    let (code, error) = run(&other).await;
    assert_eq!((code, text(&error, "code")), (Some(1), "BACKUP_IN_PROGRESS"), "{error}");
    assert!(!other.exists() && !partial(&other).exists());
    command.signal("KILL");
    command.exit(SOON).await;
    way.open.send_replace(true);
    let (code, error) = run(&file).await;
    assert_eq!((code, text(&error, "code")), (Some(1), "INVALID_REQUEST"), "{error}");
    assert!(text(&error, "message").contains("cut.backup.partial"), "{error}");
    fs::remove_file(partial(&file)).unwrap();
    eventually("the place is free", SOON, async || (run(&file).await.0 == Some(0)).then_some(())).await;
    service.restore(&file, "copy").await;
}

#[tokio::test]
async fn an_interrupted_command_takes_its_part_away() {
    let service = large().await;
    let (way, file) = (Way::to(&service).await, service.dir.path().join("interrupted.backup"));
    let mut command = begun(&service, &way, &file).await;
    command.signal("INT");
    assert_eq!(command.exit(SOON).await.code(), Some(1));
    assert!(!file.exists() && !partial(&file).exists());
}

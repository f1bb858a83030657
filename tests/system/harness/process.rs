//! One process of the program.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::eventually;

const READY_WITHIN: Duration = Duration::from_secs(90);

/// How a process is to be started. It inherits no settings.
#[derive(Clone)]
pub(crate) struct Setup {
    program: PathBuf,
    arguments: Vec<String>,
    dir: PathBuf,
    variables: Vec<(String, String)>,
    /// The command that runs the program; empty if nothing stands before it.
    runner: &'static [&'static str],
}

/// Installs the provider of TLS that clients of HTTP take.
pub(super) fn install_tls_provider() {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Setup {
    /// Everything in one process, on free ports, with its data in `dir` and no ticker.
    pub(crate) fn new(dir: &Path) -> Self {
        install_tls_provider();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_trade-thesis"));
        let setup = Self { program, arguments: Vec::new(), dir: dir.to_owned(), variables: Vec::new(), runner: &[] };
        setup
            .set("SVC_HTTP_ADDR", "127.0.0.1:0")
            .set("SVC_GRPC_ADDR", "127.0.0.1:0")
            .set("SVC_OPS_ADDR", "127.0.0.1:0")
            .set("SVC_DATA_DIR", dir.join("data").to_str().unwrap())
            .set("SVC_SANDBOX_TICK_SECONDS", "0")
            // Roles end at once too; no load balancer sends them requests.
            .set("SVC_DRAIN_SECONDS", "0")
            .set("SVC_WEBHOOK_ALLOW_NETWORKS", "127.0.0.0/8")
    }

    /// Another program than this build's.
    pub(crate) fn program(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// The program of another setup.
    pub(super) fn program_of(self, other: &Self) -> Self {
        self.program(&other.program)
    }

    /// One role.
    pub(crate) fn role(self, role: &str) -> Self {
        self.arguments(&[role])
    }

    /// A command line.
    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(ToString::to_string).collect();
        self
    }

    /// A setting; the last one of a name counts.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The value of a setting.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let last = self.variables.iter().rev().find(|(of, _)| of == name);
        last.map(|(_, value)| value.as_str())
    }

    /// Run by a user without rights, which takes a user with all of them.
    pub(crate) fn by_nobody(self) -> Self {
        Self { runner: &["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], ..self }
    }

    /// Run so that a write beyond a limit of files fails, as on a full disk. The system would end the process.
    pub(crate) fn with_failing_writes(self) -> Self {
        Self { runner: &["/bin/sh", "-c", r#"trap "" XFSZ; exec "$@""#, "sh"], ..self }
    }

    fn command(&self) -> Command {
        let mut words = self.runner.iter().map(OsStr::new).chain([self.program.as_os_str()]);
        let mut command = Command::new(words.next().expect("the program"));
        command.args(words).args(&self.arguments).env_clear().envs(self.variables.iter().cloned());
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    /// Starts the process; gives it with its stdout.
    fn spawn(&self) -> (Process, BufReader<ChildStdout>) {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let log = self.dir.join(format!("{}.log", STARTED.fetch_add(1, Ordering::Relaxed)));
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let watch = watch(child.id(), &self.dir);
        (Process { child, watch, ready: Value::Null, log }, stdout)
    }

    /// Starts a process that has no ready line; gives it with the lines of its stdout as they come.
    pub(crate) fn start_and_read_lines(&self) -> (Process, UnboundedReceiver<String>) {
        let (process, stdout) = self.spawn();
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Read to the end even if nobody hears it, so that the process can write.
                let _ = sender.send(line);
            }
        });
        (process, lines)
    }

    /// Starts the process and waits until it is ready.
    pub(crate) fn start(&self) -> Process {
        let (mut process, mut stdout) = self.spawn();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = stdout.read_line(&mut line);
            let _ = sender.send(read.map(|_| line));
        });
        let line = receiver.recv_timeout(READY_WITHIN);
        let ready = line.ok().and_then(Result::ok).and_then(|line| serde_json::from_str::<Value>(&line).ok());
        process.ready = ready.unwrap_or_default();
        assert_eq!(process.ready["ready"], true, "did not become ready: {}", process.log());
        process
    }

    /// Runs the program to its end; gives its exit code, stdout and stderr.
    pub(crate) fn run(&self) -> (Option<i32>, String, String) {
        let output = self.command().output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

/// Kills a process and removes its folder if this process ends without doing so: then the pipe closes.
fn watch(process: u32, dir: &Path) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"read -r _ || { kill -9 "$0"; rm -rf "$1"; }"#, &process.to_string()]).arg(dir);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().unwrap()
}

/// A running process, killed when dropped.
pub(crate) struct Process {
    child: Child,
    watch: Child,
    /// Its ready line.
    pub(crate) ready: Value,
    log: PathBuf,
}

impl Process {
    /// An address of its ready line.
    pub(crate) fn address(&self, name: &str) -> String {
        let address = self.ready[name].as_str();
        address.unwrap_or_else(|| panic!("no {name} in {}", self.ready)).to_owned()
    }

    /// The address at which roles and operators reach this core.
    pub(crate) fn core_address(&self) -> String {
        self.address(if self.ready["internal"].is_null() { "grpc" } else { "internal" })
    }

    /// Its text on stderr.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Limits the bytes of each file that it writes, its log too; none ends that.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        let arguments = [format!("--pid={}", self.child.id()), format!("--fsize={bytes}:")];
        assert!(Command::new("prlimit").args(arguments).status().unwrap().success());
    }

    /// Its resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().split(' ').next().unwrap().parse::<u64>().unwrap() / 1_024
    }

    /// Waits for its end.
    pub(crate) async fn exit(&mut self, within: Duration) -> ExitStatus {
        eventually("the process ends", within, async || self.child.try_wait().unwrap()).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended, and its watch as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.watch.stdin.take().map(|mut pipe| pipe.write_all(b"\n"));
        let _ = self.watch.wait();
    }
}

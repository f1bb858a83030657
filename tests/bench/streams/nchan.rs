//! Nchan, which streams are compared with.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::Failure;

/// Its module.
pub(super) const NCHAN: &str = "/usr/lib/nginx/modules/ngx_nchan_module.so";

/// Nchan in nginx: one worker, no message buffer.
pub(super) struct Nchan {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Drop for Nchan {
    fn drop(&mut self) {
        // The master ends its workers, unless it is killed.
        if let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _gone = kill_process(id, Signal::TERM);
        }
    }
}

impl Nchan {
    pub(super) async fn start(dir: &Path) -> Result<Option<Self>, Failure> {
        if !PathBuf::from(NCHAN).exists() {
            return Ok(None);
        }
        let free = TcpListener::bind("127.0.0.1:0").await?;
        let address = free.local_addr()?;
        drop(free);
        let config = dir.join("nginx.conf");
        let text = format!(
            "load_module {NCHAN};\nworker_processes 1;\ndaemon off;\npid {0}/nginx.pid;\nerror_log {0}/error.log;\n\
             worker_rlimit_nofile 65536;\nevents {{ worker_connections 32768; }}\nhttp {{\n  access_log off;\n\
             client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; \
             scgi_temp_path {0}/s;\n  nchan_message_buffer_length 0;\n  server {{\n    listen {address};\n\
             location = /pub {{ nchan_publisher; nchan_channel_id all; }}\n\
             location = /sub {{ nchan_subscriber eventsource; nchan_channel_id all; }}\n  }}\n}}\n",
            dir.display()
        );
        std::fs::write(&config, text)?;
        let child = Command::new("nginx").arg("-c").arg(&config).spawn()?;
        let nchan = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).await.is_err() {
            if Instant::now() > deadline {
                return Err("nginx does not answer".into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(Some(nchan))
    }

    /// The processes that work: the master's children.
    pub(super) async fn workers(&self) -> Result<Vec<u32>, Failure> {
        let master = self.child.id().unwrap_or_default();
        let children = tokio::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).await?;
        Ok(children.split_whitespace().filter_map(|id| id.parse().ok()).collect())
    }
}

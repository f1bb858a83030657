//! The announcement of a process that serves: a JSON line for programs, a few lines for people.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    path::Path,
};

use secrecy::ExposeSecret as _;

use crate::{config::reachable, demo::Demo, role::Role, secrets::KeptSecret};

#[derive(Clone, Copy, Default)]
pub(crate) struct ListenAddresses {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) grpc: Option<SocketAddr>,
    /// The listener for the roles, if it is another one than that of gRPC.
    pub(crate) internal: Option<SocketAddr>,
    pub(crate) ops: Option<SocketAddr>,
    /// True if REST and gRPC speak TLS.
    pub(crate) tls: bool,
}

impl ListenAddresses {
    const fn scheme(self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

#[derive(Clone, Copy, Default)]
pub(crate) struct StartDetails<'a> {
    pub(crate) first_key: Option<&'a KeptSecret>,
    pub(crate) set_up: Option<&'a KeptSecret>,
    pub(crate) demo: Option<&'a Demo>,
}

pub(crate) fn announce(role: Role, at: ListenAddresses, details: StartDetails<'_>) -> io::Result<()> {
    let mut stdout = io::stdout();
    let text = if stdout.is_terminal() { banner(role, at, details) } else { line(role, at, details)? };
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Announces that a process without a role serves HTTP; `notes` are lines for people.
pub(crate) fn announce_http(name: &str, http: SocketAddr, notes: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    let text = if stdout.is_terminal() {
        format!("\ntrade-thesis {name} is ready\n\n  HTTP      http://{}\n{notes}\n", reachable(http))
    } else {
        http_line(name, http)?
    };
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn line(role: Role, at: ListenAddresses, details: StartDetails<'_>) -> io::Result<String> {
    let url = |address: Option<SocketAddr>, scheme| address.map(|address| format!("{scheme}://{address}"));
    let file = |file: &Path| file.display().to_string();
    ready_line(
        role.name(),
        &[
            ("http", url(at.http, at.scheme())),
            ("grpc", url(at.grpc, at.scheme())),
            ("internal", url(at.internal, at.scheme())),
            ("ops", url(at.ops, "http")),
            ("test_key_file", details.first_key.filter(|key| key.is_new).map(|key| file(&key.file))),
            ("setup_link_file", details.set_up.map(|set_up| file(&set_up.file))),
            ("live_key_file", details.demo.map(|demo| file(&demo.live_key.file))),
        ],
    )
}

fn http_line(name: &str, http: SocketAddr) -> io::Result<String> {
    ready_line(name, &[("http", Some(format!("http://{http}")))])
}

/// One JSON object, with the fields that apply in this order.
fn ready_line(name: &str, fields: &[(&str, Option<String>)]) -> io::Result<String> {
    let mut line = format!("{{\"ready\":true,\"role\":{}", serde_json::to_string(name)?);
    for (field, value) in fields {
        if let Some(value) = value {
            line += &format!(",\"{field}\":{}", serde_json::to_string(value)?);
        }
    }
    Ok(line + "}\n")
}

fn banner(role: Role, at: ListenAddresses, details: StartDetails<'_>) -> String {
    let StartDetails { first_key, set_up, demo } = details;
    let mut text = String::new();
    let mut say = |name: &str, value: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    let scheme = at.scheme();
    for (name, address, scheme) in [
        ("REST", at.http, scheme),
        ("gRPC", at.grpc, scheme),
        ("internal", at.internal, scheme),
        ("ops", at.ops, "http"),
    ] {
        if let Some(address) = address {
            say(name, &format!("{scheme}://{}", reachable(address)));
        }
    }
    if let Some(key) = first_key {
        let file = key.file.display();
        if key.is_new {
            say("test key", &format!("{}  (shown this once; kept in {file})", key.text.expose_secret()));
        } else {
            say("test key", &format!("in {file}"));
        }
    }
    if let Some(set_up) = set_up {
        let (link, file) = (set_up.text.expose_secret(), set_up.file.display());
        say("set up", &format!("{link}  (makes you the administrator; kept in {file})"));
    }
    if let Some(demo) = demo {
        let (key, file) = (demo.live_key.text.expose_secret(), demo.live_key.file.display());
        say("live key", &format!("{key}  (simulated data; kept in {file}, all of it removed at the end)"));
    }
    let title = match role {
        Role::All => "trade-thesis is ready".to_owned(),
        role => format!("trade-thesis {} is ready", role.name()),
    };
    let curl = at.http.map(|http| curl(&format!("{scheme}://{}", reachable(http)), first_key)).unwrap_or_default();
    format!("\n{title}\n\n{text}{curl}\n")
}

/// Commands that can be copied into another terminal as they are.
fn curl(base: &str, first_key: Option<&KeptSecret>) -> String {
    let key = match first_key {
        Some(key) if key.is_new => key.text.expose_secret().to_owned(),
        Some(key) => format!("$(cat '{}')", key.file.display()),
        None => "$SVC_BOOTSTRAP_TEST_KEY".to_owned(),
    };
    let header = format!("-H \"Authorization: Bearer {key}\"");
    let thesis = r#"{"handle":"me","token":"DEMO","text":"My first thesis."}"#;
    format!(
        "\n  List theses, open the stream, post a test thesis:\n\n\
         curl {header} '{base}/v1/theses?limit=3'\n\
         curl -N {header} {base}/v1/events/stream\n\
         curl {header} -H 'Content-Type: application/json' -d '{thesis}' {base}/v1/test/theses\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(is_new: bool) -> KeptSecret {
        KeptSecret { text: "svc_test_abc".into(), file: "/data/test-key".into(), is_new }
    }

    fn set_up() -> KeptSecret {
        let link = "http://127.0.0.1:8080/console/links/inv_1.x";
        KeptSecret { text: link.into(), file: "/data/set-up-link".into(), is_new: true }
    }

    fn listening() -> ListenAddresses {
        ListenAddresses {
            http: Some(([0, 0, 0, 0], 8080).into()),
            grpc: Some(([127, 0, 0, 1], 50051).into()),
            internal: None,
            ops: Some(([127, 0, 0, 1], 9100).into()),
            tls: false,
        }
    }

    #[test]
    fn programs_read_one_json_line() {
        let (key, set_up) = (key(true), set_up());
        let details = StartDetails { first_key: Some(&key), set_up: Some(&set_up), demo: None };
        let text = line(Role::All, listening(), details).unwrap();
        assert_eq!(
            text,
            "{\"ready\":true,\"role\":\"all\",\"http\":\"http://0.0.0.0:8080\",\"grpc\":\"http://127.0.0.1:50051\",\
             \"ops\":\"http://127.0.0.1:9100\",\"test_key_file\":\"/data/test-key\",\
             \"setup_link_file\":\"/data/set-up-link\"}\n"
        );
        let worker =
            line(Role::Worker, ListenAddresses { http: None, grpc: None, ..listening() }, StartDetails::default())
                .unwrap();
        assert_eq!(worker, "{\"ready\":true,\"role\":\"worker\",\"ops\":\"http://127.0.0.1:9100\"}\n");
        let secure = line(Role::All, ListenAddresses { tls: true, ..listening() }, StartDetails::default()).unwrap();
        assert!(secure.contains("\"http\":\"https://0.0.0.0:8080\",\"grpc\":\"https://127.0.0.1:50051\""), "{secure}");
        assert!(secure.contains("\"ops\":\"http://127.0.0.1:9100\""), "{secure}");
        let internal = Some(([10, 0, 0, 5], 50052).into());
        let core =
            line(Role::Core, ListenAddresses { http: None, internal, ..listening() }, StartDetails::default()).unwrap();
        let urls = "\"grpc\":\"http://127.0.0.1:50051\",\"internal\":\"http://10.0.0.5:50052\",\"ops\"";
        assert!(core.contains(urls), "{core}");
        let simulator = http_line("upstream-sim", ([127, 0, 0, 1], 9900).into()).unwrap();
        assert_eq!(simulator, "{\"ready\":true,\"role\":\"upstream-sim\",\"http\":\"http://127.0.0.1:9900\"}\n");
    }

    #[test]
    fn people_see_the_key_at_the_first_start_only() {
        let (new, kept, set_up) = (key(true), key(false), set_up());
        let details = StartDetails { first_key: Some(&new), set_up: Some(&set_up), demo: None };
        let first = banner(Role::All, listening(), details);
        assert!(first.contains("  set up    http://127.0.0.1:8080/console/links/inv_1.x  ("), "{first}");
        assert!(first.contains("http://127.0.0.1:8080\n") && first.contains("Bearer svc_test_abc\""), "{first}");
        assert_eq!(first.matches("\ncurl ").count(), 3);
        let later = banner(Role::All, listening(), StartDetails { first_key: Some(&kept), ..StartDetails::default() });
        assert!(!later.contains("set up"), "{later}");
        assert!(!later.contains("svc_test_abc") && later.contains("$(cat '/data/test-key')"), "{later}");
    }
}

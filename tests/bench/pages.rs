//! `cargo bench --bench service -- pages`: how long pages of the console and of the documentation take, and their size. A
//! member of the project that has all the theses asks for one page after the other.

use core_service::{
    Person, create_invitation,
    domain::{
        account::{Actor, User},
        window::DAY_MS,
    },
};
use thesis_net::clock::{Clock as _, SystemClock};
use thesis_proto::{
    time::format_millis,
    v1::{self, Role},
};
use tokio::time::{Duration, Instant};

use crate::{
    Failure, Options, calls,
    connection::{Connection, get, post},
    data::{HOTTEST, profile_id, symbol, thesis_id, token_id},
    load,
    process::{Service, test_key},
    report::{aim_below, median, number, percentile, row},
    store::Setup,
};

/// How often each page is asked for.
const TIMES: usize = 100;
/// Longest time of a page that we aim at, in milliseconds.
const MAX_MS: f64 = 50.0;
/// Most bytes of a page that we aim at.
const MAX_BYTES: f64 = 80.0 * 1024.0;
/// Most bytes of a page of the documentation that we aim at; the viewer's scripts are files of their own.
const MAX_DOCUMENTATION_BYTES: f64 = 100.0 * 1024.0;
/// Pages of the documentation, which need no session.
const DOCUMENTATION: [(&str, &str); 5] = [
    ("documentation", "/docs"),
    ("documentation: quick start", "/docs/quick-start"),
    ("documentation: errors", "/docs/errors"),
    ("documentation: gRPC", "/docs/grpc"),
    ("documentation: reference", "/docs/reference"),
];

/// Measures and prints.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    println!("{}", crate::report::machine());
    let temporary = tempfile::tempdir()?;
    let base = options.data_dir.as_deref().unwrap_or(temporary.path());
    let setup = Setup::new(options, options.store, options.theses, base)?;
    let measured = measure(options, &setup).await;
    setup.clear().await?;
    measured
}

/// Makes an invitation to the organization of the benchmark's project; gives the project and the link.
async fn invite(setup: &Setup) -> Result<(String, String), Failure> {
    let core = load::core(setup.open().await?, setup.search_dir()).await?;
    let project = load::project(&core)?;
    let now_ms = SystemClock.now_ms();
    let person = Person {
        user: User::default().into(),
        session_id: String::new(),
        actor: Actor::operator(None),
        now_ms,
        confirmed_at: now_ms,
    };
    let request = v1::CreateInvitationRequest {
        organization_id: project.organization_id.clone(),
        email: "member@people.example".to_owned(),
        role: Role::Owner.into(),
    };
    let made = create_invitation(&core, &person, &request).await?;
    core.close().await;
    Ok((project.id.clone(), made.link.ok_or("an invitation has no link")?))
}

/// A request for a page, with a session's cookie if it needs one.
fn page(path: &str, session: Option<&str>) -> Vec<u8> {
    let cookie = session.map(|session| format!("cookie: session={session}\r\n")).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\naccept: text/html\r\n{cookie}\r\n").into_bytes()
}

/// Every page of the project, by a name.
async fn paths(connection: &mut Connection, project: &str) -> Result<Vec<(&'static str, String)>, Failure> {
    let new = r#"{"url":"http://127.0.0.1:19999/","events":["thesis.created"]}"#;
    let made = connection.ask_ok(&post("/v1/webhooks", &test_key(), new)).await?;
    let webhook: serde_json::Value = serde_json::from_slice(made.body)?;
    let webhook = webhook["id"].as_str().ok_or("a webhook has no id")?.to_owned();
    let listed = connection.ask_ok(&get("/v1/events?limit=1", &test_key())).await?;
    let listed: serde_json::Value = serde_json::from_slice(listed.body)?;
    let event = listed["data"][0]["id"].as_str().ok_or("there is no event")?.to_owned();
    let of = |page: String| format!("/console/projects/{project}/test{page}");
    let (thesis, hottest) = (thesis_id(0), symbol(HOTTEST));
    let since = format_millis(SystemClock.now_ms() - DAY_MS);
    Ok(vec![
        ("project", format!("/console/projects/{project}")),
        ("usage", format!("/console/projects/{project}/usage")),
        ("webhooks", of("/webhooks".to_owned())),
        ("webhook", of(format!("/webhooks/{webhook}"))),
        ("webhook: matches of 1,000 events", of(format!("/webhooks/{webhook}/matches"))),
        ("events", of("/events".to_owned())),
        ("events of the hottest token", of(format!("/events?token=%24{hottest}"))),
        ("event", of(format!("/events/{event}"))),
        ("explore", of("/explore".to_owned())),
        ("explore: search of a common word", of("/explore?q=the".to_owned())),
        ("theses", of("/explore/theses".to_owned())),
        ("theses by likes", of("/explore/theses?sort=likes_desc".to_owned())),
        ("theses of the hottest token", of(format!("/explore/theses?token=%24{hottest}"))),
        ("thesis", of(format!("/explore/theses/{thesis}"))),
        ("busiest profile", of(format!("/explore/profiles/{}", profile_id(0)))),
        ("hottest token", of(format!("/explore/tokens/{}", token_id(HOTTEST)))),
        (
            "verification",
            of(format!("/explore/verify?profile_id={}&token=%24{hottest}&created_after={since}", profile_id(0))),
        ),
    ])
}

async fn measure(options: &Options, setup: &Setup) -> Result<(), Failure> {
    if !setup.is_loaded() {
        load::run(options, setup).await?;
    }
    let (project, link) = invite(setup).await?;
    let service = Service::start(setup).await?;
    service.indexed().await?;
    let token = link.rsplit('/').next().unwrap_or_default().to_owned();
    let password = Some("the password of the benchmark".to_owned());
    let request = v1::AcceptInvitationRequest { token, email: None, password, user_agent: None };
    let accepted = calls::accounts(&service).await?.accept_invitation(request).await?.into_inner();
    let session = accepted.session.ok_or("a member has no session")?.token;
    let mut connection = Connection::open(service.address("http")?).await?;
    println!("\nPages of the console, {TIMES} times each, one after the other; {setup}");
    row(&["", "p50 ms", "p99 ms", "aim", "bytes", "aim"]);
    let mut all = Vec::new();
    let console = paths(&mut connection, &project).await?;
    let console = console.into_iter().map(|(name, path)| (name, page(&path, Some(session.as_str())), MAX_BYTES));
    let documentation = DOCUMENTATION.into_iter().map(|(name, path)| (name, page(path, None), MAX_DOCUMENTATION_BYTES));
    for (name, request, max_bytes) in console.chain(documentation) {
        let (mut times, mut bytes): (Vec<Duration>, usize) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let began = Instant::now();
            let answer = connection.ask_ok(&request).await?;
            times.push(began.elapsed());
            bytes = bytes.max(answer.body.len());
        }
        let [p50, p99] = [0.5, 0.99].map(|part| percentile(&mut times, part));
        let (time_aim, size_aim) = (aim_below(p99, MAX_MS, " ms"), aim_below(bytes as f64, max_bytes, ""));
        row(&[name, &number(p50), &number(p99), &time_aim, &number(bytes as f64), &size_aim]);
        all.push(p50);
    }
    println!("  Median of all pages: {} ms. {}.", number(median(all)), service.memory());
    service.stop().await?;
    Ok(())
}

//! `cargo bench --bench service -- pages`: how long pages of the console and of the documentation take, and their size. A
//! member of the project that has all the theses, who also administers the service, asks for one page after the other.
//! Pages that only follow a form, such as that of a new key, are not among them.

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
use tokio::time::{Duration, Instant, sleep};

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
/// Time in which the request log must show a request.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of the console that need no session.
const VISITORS: [(&str, &str); 3] =
    [("sign-in", "/console/sign-in"), ("sign-up", "/console/sign-up"), ("forgotten password", "/console/forgot")];
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

/// A member of the organization of the benchmark's project, who administers the service.
struct Member {
    organization: String,
    project: String,
    user: String,
    /// The token of their session.
    session: String,
}

/// Invites somebody to the organization of the benchmark's project; gives the organization, the project and the link.
async fn invite(setup: &Setup, email: &str) -> Result<(String, String, String), Failure> {
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
        email: email.to_owned(),
        role: Role::Owner.into(),
    };
    let made = create_invitation(&core, &person, &request).await?;
    core.close().await;
    Ok((project.organization_id.clone(), project.id.clone(), made.link.ok_or("an invitation has no link")?))
}

/// Accepts an invitation and makes the new member an administrator.
async fn join(
    service: &Service,
    email: &str,
    (organization, project, link): (String, String, String),
) -> Result<Member, Failure> {
    let token = link.rsplit('/').next().unwrap_or_default().to_owned();
    let password = Some("the password of the benchmark".to_owned());
    let request = v1::AcceptInvitationRequest { token, email: None, password, user_agent: None };
    let accepted = calls::accounts(service).await?.accept_invitation(request).await?.into_inner();
    let session = accepted.session.ok_or("a member has no session")?;
    let mut operator = calls::operator(service).await?;
    operator.confirm_user(v1::ConfirmUserRequest { email: email.to_owned() }).await?;
    let request = v1::SetAdministratorRequest { email: email.to_owned(), administrator: true };
    operator.set_administrator(request).await?;
    Ok(Member { organization, project, user: session.user.unwrap_or_default().id, session: session.token })
}

/// A request for a page, with a session's cookie if it needs one.
fn page(path: &str, session: Option<&str>) -> Vec<u8> {
    let cookie = session.map(|session| format!("cookie: session={session}\r\n")).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\naccept: text/html\r\n{cookie}\r\n").into_bytes()
}

/// The first id or path on a page that begins with `start`.
async fn find(connection: &mut Connection, member: &Member, path: &str, start: &str) -> Result<String, Failure> {
    let answer = connection.ask_ok(&page(path, Some(&member.session))).await?;
    let text = String::from_utf8_lossy(answer.body);
    let at = text.find(start).ok_or_else(|| format!("{path} has no {start}"))?;
    Ok(text[at..].chars().take_while(|letter| letter.is_ascii_alphanumeric() || "_/".contains(*letter)).collect())
}

/// Creates an object through the API; gives its id.
async fn create(connection: &mut Connection, path: &str, body: &str) -> Result<String, Failure> {
    let answer = connection.ask_ok(&post(path, &test_key(), body)).await?;
    let object: serde_json::Value = serde_json::from_slice(answer.body)?;
    Ok(object["id"].as_str().ok_or_else(|| format!("{path} gave no id"))?.to_owned())
}

/// The pages of accounts, of the organization, of the project's keys and of the administration, by a name.
fn access(member: &Member, key: &str) -> Vec<(&'static str, String)> {
    let Member { organization, project, user, .. } = member;
    let in_organization = |page: &str| format!("/console/organizations/{organization}{page}");
    let in_project = |page: &str| format!("/console/projects/{project}{page}");
    let administration = |page: &str| format!("/console/administration{page}");
    vec![
        ("account", "/console/account".to_owned()),
        ("second factors", "/console/account/factors".to_owned()),
        ("confirmation", "/console/confirm".to_owned()),
        ("find", "/console/find?q=keys".to_owned()),
        ("new organization", "/console/organizations/new".to_owned()),
        ("organization", in_organization("")),
        ("organization: settings", in_organization("/settings")),
        ("members", in_organization("/members")),
        ("member: removal", in_organization(&format!("/members/{user}/remove"))),
        ("audit log", in_organization("/audit")),
        ("new project", in_organization("/projects")),
        ("project", in_project("")),
        ("project: settings", in_project("/settings")),
        ("project: archiving", in_project("/archive")),
        ("usage", in_project("/usage")),
        ("new key", in_project("/keys")),
        ("key: roll", in_project(&format!("/keys/{key}/roll"))),
        ("key: revocation", in_project(&format!("/keys/{key}/revoke"))),
        ("approvals", administration("")),
        ("organizations", administration("/organizations")),
        ("users", administration("/users")),
        ("administrator: removal", administration(&format!("/users/{user}/administrator"))),
        ("second factors: removal", administration(&format!("/users/{user}/factors"))),
        ("audit log of all", administration("/audit")),
        ("abuse", administration("/abuse")),
        ("ingest", administration("/ingest")),
    ]
}

/// Creates a webhook and an alert; gives their pages and those of the requests, by a name.
async fn created(connection: &mut Connection, member: &Member) -> Result<Vec<(&'static str, String)>, Failure> {
    let endpoint = r#"{"url":"http://127.0.0.1:19999/","events":["thesis.created"]}"#;
    let webhook = create(connection, "/v1/webhooks", endpoint).await?;
    let delivery = create(connection, &format!("/v1/webhooks/{webhook}/test"), "").await?;
    let rule = format!(r#"{{"name":"busy","token":"{}","metric":"thesis_count_1h","above":20}}"#, token_id(HOTTEST));
    let alert = create(connection, "/v1/alerts", &rule).await?;
    let home = format!("/console/projects/{}/test", member.project);
    let log = format!("{home}/requests");
    // The log stores requests each second.
    let deadline = Instant::now() + LOG_TIMEOUT;
    let request = loop {
        match find(connection, member, &log, "/requests/").await {
            Ok(request) => break request,
            Err(failure) if Instant::now() > deadline => return Err(failure),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    };
    Ok(vec![
        ("webhook", format!("{home}/webhooks/{webhook}")),
        ("webhook: matches of 1,000 events", format!("{home}/webhooks/{webhook}/matches")),
        ("delivery", format!("{home}/webhooks/{webhook}/deliveries/{delivery}")),
        ("alert", format!("{home}/alerts/{alert}")),
        ("requests", log),
        ("request", format!("{home}{request}")),
    ])
}

/// The other pages of the project's test environment, by a name.
fn data(project: &str, event: &str) -> Vec<(&'static str, String)> {
    let of = |page: String| format!("/console/projects/{project}/test{page}");
    let (thesis, hottest) = (thesis_id(0), symbol(HOTTEST));
    let since = format_millis(SystemClock.now_ms() - DAY_MS);
    vec![
        ("webhooks", of("/webhooks".to_owned())),
        ("new webhook", of("/webhooks/new".to_owned())),
        ("alerts", of("/alerts".to_owned())),
        ("new alert", of("/alerts/new".to_owned())),
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
    ]
}

/// Every page of the console that a session can open, by a name.
async fn paths(connection: &mut Connection, member: &Member) -> Result<Vec<(&'static str, String)>, Failure> {
    let listed = connection.ask_ok(&get("/v1/events?limit=1", &test_key())).await?;
    let listed: serde_json::Value = serde_json::from_slice(listed.body)?;
    let event = listed["data"][0]["id"].as_str().ok_or("there is no event")?.to_owned();
    let link = find(connection, member, &format!("/console/projects/{}", member.project), "/keys/").await?;
    let key = link.split('/').nth(2).ok_or("the project has no key")?;
    let mut all = access(member, key);
    all.extend(data(&member.project, &event));
    all.extend(created(connection, member).await?);
    Ok(all)
}

async fn measure(options: &Options, setup: &Setup) -> Result<(), Failure> {
    if !setup.is_loaded() {
        load::run(options, setup).await?;
    }
    // Several runs use the same theses, and each of them adds a member.
    let email = format!("member-{}@people.example", SystemClock.now_ms());
    let invited = invite(setup, &email).await?;
    let service = Service::start(setup).await?;
    service.indexed().await?;
    let member = join(&service, &email, invited).await?;
    let mut connection = Connection::open(service.address("http")?).await?;
    println!("\nPages of the console, {TIMES} times each, one after the other; {setup}");
    row(&["", "p50 ms", "p99 ms", "aim", "bytes", "aim"]);
    let mut all = Vec::new();
    let console = paths(&mut connection, &member).await?;
    let console = console.into_iter().map(|(name, path)| (name, page(&path, Some(&member.session)), MAX_BYTES));
    let visitors = VISITORS.into_iter().map(|(name, path)| (name, page(path, None), MAX_BYTES));
    let documentation = DOCUMENTATION.into_iter().map(|(name, path)| (name, page(path, None), MAX_DOCUMENTATION_BYTES));
    for (name, request, max_bytes) in visitors.chain(console).chain(documentation) {
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

//! Exploring: its pages show what the API answers, to members only.

mod receipts;
mod refusals;
mod verdicts;

use std::time::Duration;

use serde_json::Value;
use thesis_proto::v1::{self, Environment, observation::Observed};

use super::{everywhere, is};
use crate::harness::{
    Client, Person, SOON, Service,
    browser::{Browser, Form, Page},
    eventually,
    ingest::{author, revision, seen_at, thesis, token},
    iso, now_ms, text,
};

on_both_stores![
    a_token_has_the_counts_of_the_api,
    a_search_leads_to_what_it_finds,
    lists_go_on_by_pages,
    what_upstream_says_stays_text,
    an_ambiguous_symbol_leads_to_its_tokens,
];

const MINUTE_MS: i64 = 60_000;
const SCRIPT: &str = "<script>alert(1)</script>";

/// A member of an organization with a project, and the API with a test key of it.
struct Explorer {
    owner: Person,
    organization: String,
    project: String,
    browser: Browser,
    client: Client,
}

impl Explorer {
    async fn new(service: &Service) -> Self {
        let (owner, organization) = service.owner().await;
        let project = owner.project(&organization, "Hive").await.id;
        let raw = owner.key(&project, Environment::Test).await.1;
        everywhere(service, &raw, "the key works", is(200, "")).await;
        let client = Client::over(&service.edges, Some(&raw));
        Self { browser: service.browser_of(&owner), owner, organization, project, client }
    }

    /// The path of a page, such as `/theses`.
    fn path(&self, page: &str) -> String {
        format!("/console/projects/{}/test/explore{page}", self.project)
    }

    async fn open(&self, page: &str) -> Page {
        self.browser.get(&self.path(page)).await
    }

    /// Brings theses of `@ada` on `$HIVE` to the project, each of an age in minutes; gives their ids.
    async fn post(&self, service: &Service, ages: &[i64]) -> Vec<String> {
        let (by, on, now) = (author("u-ada", "ada"), token("solana", "HiveMint", "HIVE"), now_ms());
        let posted = |(number, age): (usize, &i64)| {
            let said = format!("number {number}");
            seen_at(now, Observed::Thesis(thesis(&format!("x{number}"), &by, &on, &said, now - age * MINUTE_MS)))
        };
        let observations = ages.iter().enumerate().map(posted).collect();
        let results = service.ingest(&format!("project/{}", self.project), observations).await;
        results.into_iter().map(|result| result.id).collect()
    }

    /// Brings one observation to the project; gives the id of its row.
    async fn learn(&self, service: &Service, number: i64, observed: Observed) -> String {
        service.learn(&format!("project/{}", self.project), revision(number, observed)).await
    }
}

/// The value beside a name.
#[track_caller]
fn fact(page: &Page, name: &str) -> String {
    let at = page.elements.iter().position(|element| element.name == "dt" && element.text() == name);
    let at = at.unwrap_or_else(|| panic!("no {name} in {page}"));
    page.elements[at..].iter().find(|element| element.name == "dd").unwrap().text()
}

/// Where the links of a page lead that have a text.
fn links(page: &Page, text: &str) -> Vec<String> {
    let found = page.all("a").filter(|link| link.text() == text);
    found.filter_map(|link| link.get("href").map(str::to_owned)).collect()
}

/// The form that asks a page.
#[track_caller]
fn question(page: &Page, path: &str) -> Form {
    let found = page.forms().into_iter().find(|form| !form.is_post && form.action == path);
    found.unwrap_or_else(|| panic!("no form for {path} in {page}"))
}

async fn a_token_has_the_counts_of_the_api(service: &Service) {
    let explorer = Explorer::new(service).await;
    // Each in the middle of an hour.
    explorer.post(service, &[30, 31, 90, 150, 151, 152, 23 * 60 + 30, 30 * 60]).await;
    let told = explorer.client.get("/v1/tokens/HIVE").await.ok(200);
    let activity = explorer.client.get("/v1/tokens/HIVE/activity").await.ok(200);
    let velocity = explorer.client.get("/v1/tokens/HIVE/thesis-velocity").await.ok(200);
    for reference in ["HIVE", "%24hive", "solana:HiveMint", text(&told, "id")] {
        let page = explorer.open(&format!("/tokens/{reference}")).await.is(200);
        assert_eq!(page.heading(), "$HIVE on solana");
        assert_eq!((fact(&page, "Id"), fact(&page, "Address")), (text(&told, "id").to_owned(), "HiveMint".to_owned()));
        for (name, value) in [
            ("Theses", &told["thesis_count"]),
            ("Authors", &told["unique_thesis_authors"]),
            ("Theses of the last hour", &activity["thesis_count_1h"]),
            ("Theses of the last 24 hours", &activity["thesis_count_24h"]),
            ("Authors of the last 24 hours", &activity["unique_authors_24h"]),
            ("Theses of the last 5 minutes", &velocity["last_5m"]),
            ("Theses of the hour before", &velocity["previous_1h"]),
        ] {
            assert_eq!(fact(&page, name), value.to_string(), "{name}");
        }
        assert_eq!(fact(&page, "Change"), "+100.0 %");
        let after_start = |title: String| Some(title.strip_prefix("From ")?.split_once(": ")?.1.to_owned());
        let shown: Vec<String> = page.all("title").filter_map(|title| after_start(title.text())).collect();
        let counted = |hour: &Value| format!("{} theses, {} authors", hour["theses"], hour["unique_authors"]);
        let expected: Vec<String> = activity["timeline"].as_array().unwrap().iter().map(counted).collect();
        assert_eq!((shown.len(), shown), (24, expected));
        assert_eq!(links(&page, "@ada").len(), 8);
    }
    // Nothing was recorded an hour ago.
    let path = explorer.path(&format!("/tokens/{}", text(&told, "id")));
    let asked = question(&explorer.open("/tokens/HIVE").await.is(200), &path)
        .fill("as_of", &iso(now_ms() - 60 * MINUTE_MS)[..19]);
    let page = explorer.browser.answer(&asked).await.is(200);
    assert_eq!((fact(&page, "Theses"), fact(&page, "Theses of the last 24 hours")), ("0".to_owned(), "0".to_owned()));
    let page = explorer.browser.answer(&asked.fill("as_of", "9999-12-31T00:00:00")).await.is(422);
    assert!(page.says("not be in the future").forms().iter().any(|form| form.action == path));
    let profile = explorer.client.get("/v1/profiles/ada").await.ok(200);
    for reference in ["ada", "@ada", text(&profile, "id"), "u-ada"] {
        let page = explorer.open(&format!("/profiles/{reference}")).await.is(200).says("number 7");
        assert_eq!((page.heading(), fact(&page, "Id")), ("@ada".to_owned(), text(&profile, "id").to_owned()));
    }
    let newest = explorer.client.get("/v1/theses?token=HIVE&limit=1").await.ok(200)["data"][0].take();
    let page = explorer.open(&format!("/theses/{}", text(&newest, "id"))).await.is(200).says(text(&newest, "text"));
    let at = text(&newest, "created_at").replace('T', " ").replace('Z', " UTC");
    assert_eq!((fact(&page, "Posted"), fact(&page, "Likes")), (at, "unknown".to_owned()));
}

async fn a_search_leads_to_what_it_finds(service: &Service) {
    let explorer = Explorer::new(service).await;
    let (made, _) = explorer.client.thesis("looker", "LOOKED", "zweiundvierzig rockets").await;
    let first = explorer.open("").await.is(200).says("Newest theses").says("zweiundvierzig rockets");
    let own = format!("/theses/{}", text(&made, "id"));
    for (kind, words, leads) in [
        ("Everything", "zweiundvierzig", own.as_str()),
        ("Theses", "zweiundvierzig", own.as_str()),
        ("Profiles", "looker", "/profiles/fp_"),
        ("Tokens", "LOOKED", "/tokens/tk_"),
    ] {
        let form = question(&first, &explorer.path("")).fill("q", words).fill("types", kind);
        let leads = explorer.path(leads);
        let find = async || {
            let page = explorer.browser.answer(&form).await.is(200);
            let href = page.all("a").filter_map(|link| link.get("href")).find(|href| href.starts_with(&leads));
            if href.is_none() {
                // Searches have a limit by the minute.
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            href.map(|href| (href.to_owned(), question(&page, &explorer.path(""))))
        };
        let (href, asked) = eventually(kind, SOON, find).await;
        assert_eq!(asked.field("q").value, words);
        explorer.browser.get(&href).await.is(200);
    }
    let nothing = question(&first, &explorer.path("")).fill("q", "nothing-like-that-anywhere");
    explorer.browser.answer(&nothing).await.is(200).says("Nothing was found.");
}

async fn lists_go_on_by_pages(service: &Service) {
    let explorer = Explorer::new(service).await;
    let ages: Vec<i64> = (1..=30).collect();
    let ids = explorer.post(service, &ages).await;
    let page = explorer.open("/theses").await.is(200);
    let asked = question(&page, &explorer.path("/theses")).fill("token", "HIVE").fill("sort", "Oldest first");
    let page = explorer.browser.answer(&asked).await.is(200);
    let listed = |page: &Page| {
        let shown = page.all("a").filter_map(|link| link.get("href")?.strip_prefix(&explorer.path("/theses/")));
        shown.map(str::to_owned).collect::<Vec<_>>()
    };
    let oldest: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!((listed(&page), links(&page, "First page").len()), (oldest[..25].to_vec(), 0));
    let last = explorer.browser.get(&links(&page, "Next")[0]).await.is(200);
    assert_eq!((listed(&last), links(&last, "Next").len()), (oldest[25..].to_vec(), 0));
    assert_eq!(question(&last, &explorer.path("/theses")).field("token").value, "HIVE");
    // The link is named for the order.
    let newest = explorer.browser.answer(&asked.fill("sort", "Newest first")).await.is(200);
    assert_eq!((links(&newest, "Older").len(), links(&newest, "Next").len()), (1, 0));
    let again = explorer.browser.get(&links(&last, "First page")[0]).await.is(200);
    assert_eq!(listed(&again), oldest[..25]);
    let none = explorer.open("/theses?token=HIVE&profile=nobody").await.is(200).says("There are none.");
    assert!(listed(&none).is_empty());
}

async fn what_upstream_says_stays_text(service: &Service) {
    let explorer = Explorer::new(service).await;
    let by = v1::ProfileObservation {
        display_name: Some(SCRIPT.to_owned()),
        bio: Some(format!("bio {SCRIPT}")),
        profile_url: Some("https://people.example/mark".to_owned()),
        ..author("u-mark", "mark")
    };
    let on = v1::TokenObservation { name: Some(SCRIPT.to_owned()), ..token("solana", "MarkMint", "MARK") };
    let posted = thesis("m1", &by, &on, SCRIPT, now_ms());
    let id = explorer.learn(service, 1, Observed::Thesis(posted)).await;
    for page in ["", "/theses", &*format!("/theses/{id}"), "/profiles/mark", "/tokens/MARK"] {
        let page = explorer.open(page).await.is(200).says(SCRIPT);
        assert!(!page.html.contains(SCRIPT), "{page}");
        for link in page.all("a").filter(|link| link.get("href").is_some_and(|href| href.contains("://"))) {
            assert_eq!(link.get("rel"), Some("noopener noreferrer nofollow"), "{page}");
        }
    }
    let typed = url::form_urlencoded::Serializer::new(String::new()).append_pair("q", SCRIPT).finish();
    for page in [format!("?{typed}"), format!("/theses?token={SCRIPT}"), format!("/verify?token={SCRIPT}")] {
        let page = explorer.open(&page.replace('<', "%3C").replace('>', "%3E")).await;
        assert!([200, 422, 503].contains(&page.status) && !page.html.contains(SCRIPT), "{page}");
    }
}

async fn an_ambiguous_symbol_leads_to_its_tokens(service: &Service) {
    let explorer = Explorer::new(service).await;
    for (number, chain) in [(1, "solana"), (2, "ethereum")] {
        explorer.learn(service, number, Observed::Token(token(chain, &format!("Twin{number}"), "TWIN"))).await;
    }
    let page = explorer.open("/tokens/TWIN").await.is(409);
    for chain in ["solana", "ethereum"] {
        let name = format!("$TWIN on {chain}");
        let href = links(&page, &name).pop().unwrap_or_else(|| panic!("{page}"));
        assert_eq!(explorer.browser.get(&href).await.is(200).heading(), name);
        assert_eq!(explorer.open(&format!("/tokens/TWIN?chain={chain}")).await.is(200).heading(), name);
    }
    explorer.client.thesis("ada", "OTHER", "x").await;
    let question = format!("handle=ada&token=TWIN&contains=x&created_after={}", iso(now_ms() - 60 * MINUTE_MS));
    let page = explorer.open(&format!("/verify?{question}")).await.is(409);
    let hrefs = page.all("a").filter_map(|link| link.get("href")).filter(|href| href.contains("token=tk_"));
    let hrefs: Vec<&str> = hrefs.collect();
    assert_eq!(hrefs.len(), 2, "{page}");
    for href in hrefs {
        assert!(href.contains("contains=x"), "{href}");
        explorer.browser.get(href).await.is(200).says("Not verified: the profile posted no thesis");
    }
}

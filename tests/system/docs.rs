//! The documentation as a reader walks through it: every page and every link on it.

use std::collections::{BTreeMap, BTreeSet};

use html5gum::{DefaultEmitter, Token, Tokenizer};
use reqwest::{
    Method, Response,
    header::{ACCEPT, ACCEPT_ENCODING},
};
use thesis_proto::error::ErrorCode;

use crate::harness::{Service, fetch, http_client};

/// Most bytes of a page.
const MAX_BYTES: usize = 150_000;

on_both_stores![
    every_link_leads_somewhere,
    every_error_leads_to_its_paragraph,
    every_operation_has_a_page,
    the_search_leads_to_every_part,
    every_page_is_markdown_too,
    pages_are_cached,
];

/// What a page has: where its links lead, and its fragments.
struct Read {
    links: Vec<String>,
    ids: BTreeSet<String>,
    headings: usize,
}

fn read(html: &str) -> Read {
    let mut emitter = DefaultEmitter::<()>::default();
    emitter.naively_switch_states(true);
    let mut read = Read { links: Vec::new(), ids: BTreeSet::new(), headings: 0 };
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => {
                let get = |name: &str| {
                    let value = tag.attributes.get(name.as_bytes())?;
                    Some(String::from_utf8(value.to_vec()).unwrap())
                };
                read.links.extend(["href", "src"].into_iter().filter_map(get));
                if let Some(id) = get("id") {
                    assert!(read.ids.insert(id.clone()), "the id {id} is there twice");
                }
                read.headings += usize::from(&**tag.name == b"h1");
                assert!(get("style").is_none() && &**tag.name != b"style", "a style in a page");
            }
            Token::Error(error) => panic!("{error:?} in {html}"),
            _ => {}
        }
    }
    read
}

/// Requests a page as a browser does.
async fn get(service: &Service, path: &str) -> Response {
    let request = http_client().build().unwrap().get(format!("{}{path}", service.edges[0]));
    request.header(ACCEPT, "text/html,*/*;q=0.8").send().await.unwrap()
}

async fn every_link_leads_somewhere(service: &Service) {
    let (mut pages, mut to_read) = (BTreeMap::<String, Read>::new(), vec!["/docs".to_owned(), "/".to_owned()]);
    while let Some(path) = to_read.pop() {
        let answer = get(service, &path).await;
        assert_eq!(answer.status(), 200, "{path}");
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        let policy = answer.headers().get("content-security-policy").map(|policy| policy.to_str().unwrap().to_owned());
        let text = answer.text().await.unwrap();
        // The page that checks receipts is one file with its style, since it also works from a disk.
        if !kind.starts_with("text/html") || path.starts_with("/console") || path == "/verify" {
            pages.insert(path, Read { links: Vec::new(), ids: BTreeSet::new(), headings: 1 });
            continue;
        }
        assert!(policy.is_some_and(|policy| policy.starts_with("default-src 'none'")), "{path}");
        assert!(text.len() < MAX_BYTES, "{path} has {} bytes", text.len());
        assert!(!text.contains("{{"), "a placeholder is left in {path}");
        let page = read(&text);
        assert_eq!(page.headings, 1, "{path}");
        for link in page.links.iter().filter(|link| link.starts_with('/')) {
            let target = link.split(['#', '?']).next().unwrap().to_owned();
            if !pages.contains_key(&target) && !to_read.contains(&target) && target != path {
                to_read.push(target);
            }
        }
        pages.insert(path, page);
    }
    assert!(pages.len() > 20, "{:?}", pages.keys());
    for (path, page) in &pages {
        for link in &page.links {
            let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { path } else { target.split('?').next().unwrap() };
            let is_elsewhere = target.starts_with("https://") || target.starts_with("http://");
            assert!(is_elsewhere || pages.contains_key(target), "{path} leads to {link}");
            let known = || pages[target].ids.contains(fragment) || target.starts_with("/console");
            assert!(is_elsewhere || fragment.is_empty() || known(), "{path} leads to {link}, which has no such part");
        }
    }
}

async fn every_error_leads_to_its_paragraph(service: &Service) {
    let page = read(&get(service, "/docs/errors").await.text().await.unwrap());
    for code in ErrorCode::ALL {
        assert!(page.ids.contains(&code.as_str().to_lowercase()), "{} is not explained", code.as_str());
    }
    let refused: serde_json::Value = get(service, "/v1/nothing").await.json().await.unwrap();
    let address = refused["error"]["doc_url"].as_str().unwrap();
    let (page, fragment) = address.split_once('#').unwrap();
    assert_eq!(fragment, "route_not_found");
    let answer = fetch(page).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(read(&answer.text().await.unwrap()).ids.contains(fragment));
}

async fn every_operation_has_a_page(service: &Service) {
    let overview = read(&get(service, "/docs/reference").await.text().await.unwrap());
    let description: serde_json::Value = get(service, "/v1/openapi.json").await.json().await.unwrap();
    let paths = description["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let webhooks = description["webhooks"].as_object().unwrap().values().map(|item| &item["post"]);
    let ids: Vec<_> = paths.chain(webhooks).map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert!(ids.len() > 30, "{ids:?}");
    for id in ids {
        assert!(overview.ids.contains(id), "the list lacks {id}");
        let answer = get(service, &format!("/docs/reference/{id}")).await;
        assert_eq!(answer.status(), 200, "{id}");
        // Requests of the form go to the page's own origin, so the reference needs no policy of its own.
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.contains("connect-src 'self'; ") && !policy.contains("unsafe"), "{policy}");
        let page = read(&answer.text().await.unwrap());
        assert!(page.ids.contains("errors") || id.starts_with("on"), "{id} has no errors");
    }
}

async fn the_search_leads_to_every_part(service: &Service) {
    let index: Vec<serde_json::Value> = get(service, "/docs/search.json").await.json().await.unwrap();
    let mut pages = BTreeMap::<String, Read>::new();
    for entry in &index {
        let path = entry["path"].as_str().unwrap();
        let (page, fragment) = path.split_once('#').unwrap_or((path, ""));
        if !pages.contains_key(page) {
            let answer = get(service, page).await;
            assert_eq!(answer.status(), 200, "{page}");
            pages.insert(page.to_owned(), read(&answer.text().await.unwrap()));
        }
        assert!(fragment.is_empty() || pages[page].ids.contains(fragment), "{path}");
    }
    let finds = |text: &str, path: &str| {
        let found = index.iter().find(|entry| entry["path"] == path).unwrap_or_else(|| panic!("no {path}"));
        assert!(found["text"].as_str().unwrap().contains(text), "{found}");
    };
    finds("POST /v1/webhooks", "/docs/reference/createWebhook");
    finds("cursor", "/docs/errors#invalid_cursor");
    finds("", "/docs/quick-start");
}

async fn every_page_is_markdown_too(service: &Service) {
    for path in ["/docs", "/docs/quick-start", "/docs/errors", "/docs/grpc/resources", "/docs/reference/getThesis"] {
        let answer = get(service, &format!("{path}.md")).await;
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!((answer.status().as_u16(), &*kind), (200, "text/markdown; charset=utf-8"), "{path}");
        let text = answer.text().await.unwrap();
        assert!(text.starts_with("# ") && !text.contains("{{"), "{path}: {text}");
        let page = get(service, path).await.text().await.unwrap();
        assert!(page.contains(&format!("href=\"{path}.md\"")), "{path} does not lead to its Markdown");
    }
    let list = get(service, "/llms.txt").await.text().await.unwrap();
    assert!(list.starts_with("# Trade Thesis Data Service\n\n> This service records"), "{list}");
    assert!(list.contains("/v1/openapi.json") && list.contains("/v1/asyncapi.json"), "{list}");
    let lines = list.lines().filter_map(|line| line.strip_prefix("- [")?.split_once("](")?.1.split_once(')'));
    let targets: Vec<_> = lines.map(|(target, _)| target.to_owned()).collect();
    assert!(targets.len() > 20, "{targets:?}");
    for target in targets {
        assert_eq!(fetch(target.clone()).await.unwrap().status(), 200, "{target}");
    }
}

async fn pages_are_cached(service: &Service) {
    let client = http_client().build().unwrap();
    let address = format!("{}/docs/quick-start", service.edges[0]);
    let first = client.get(&address).send().await.unwrap();
    let tag = first.headers()["etag"].clone();
    let again = client.get(&address).header("if-none-match", tag).send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.bytes().await.unwrap().len()), (304, 0));
    let packed = client.get(&address).header(ACCEPT_ENCODING, "gzip").send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert!(packed.bytes().await.unwrap().len() < first.bytes().await.unwrap().len() / 2);
    for (method, path, status) in [
        (Method::HEAD, "/docs/errors", 200),
        (Method::POST, "/docs/errors", 405),
        (Method::GET, "/docs/nothing", 404),
        (Method::GET, "/docs/reference/nothing.js", 404),
        (Method::GET, "/docsx", 404),
    ] {
        let answer = client.request(method, format!("{}{path}", service.edges[0])).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path}");
    }
    // A slash at the end leads to the page.
    assert_eq!(get(service, "/docs/errors/").await.url().path(), "/docs/errors");
}

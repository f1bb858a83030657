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
const MAX_BYTES: usize = 100 * 1_024;

on_both_stores![every_link_leads_somewhere, every_error_leads_to_its_paragraph, the_reference_loads, pages_are_cached];

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

async fn the_reference_loads(service: &Service) {
    let answer = get(service, "/docs/reference").await;
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    // Requests that people try go where the description says.
    let description: serde_json::Value = get(service, "/v1/openapi.json").await.json().await.unwrap();
    let server = description["servers"][0]["url"].as_str().unwrap();
    assert!(policy.contains(&format!("connect-src 'self' {server};")), "{policy}");
    let page = read(&answer.text().await.unwrap());
    for file in page.links.iter().filter(|link| link.ends_with(".js") || link.ends_with(".css")) {
        let answer = get(service, file).await;
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(answer.status() == 200 && (kind.contains("javascript") || kind.contains("css")), "{file}: {kind}");
        assert!(!answer.bytes().await.unwrap().is_empty(), "{file}");
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

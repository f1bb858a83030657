//! The documentation at `/docs`: guides in Markdown, the errors, the proto files, and the reference of all operations.
//! Everybody may read it. All visitors see the same pages, so the first request of a day renders them all: a few
//! examples have times of these days. Each page is served as HTML, and with `.md` behind its path as Markdown.

mod grpc;
mod guides;
mod highlight;
mod markdown;
mod menu;
mod page;
mod reference;
mod search;
mod site;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header::ETAG};
use rest_edge_console::HEADERS;
use thesis_net::{blocking, clock::SharedClock};
use tokio::sync::Mutex;

pub(crate) use self::highlight::highlight;
use self::{menu::Menu, page::Page, site::Site};
use crate::{
    answer::{Answer, Failure, JSON, method_not_allowed, redirect},
    conditional,
    description::day_of,
    document::Document,
};

pub(crate) const HOME: &str = "/docs";
/// The index of the search.
const SEARCH: &str = "/docs/search.json";
/// The list of all pages, where programs look for it.
const LLMS: &str = "/llms.txt";
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const MARKDOWN: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");

/// True if the path belongs to the documentation.
pub(crate) fn covers(path: &str) -> bool {
    let rest = path.strip_prefix(HOME);
    path == LLMS || rest.is_some_and(|rest| rest.is_empty() || rest == ".md" || rest.starts_with('/'))
}

/// All pages and files by path.
type Documents = HashMap<String, Document>;

/// The documentation of a service with one public URL.
pub(crate) struct Docs {
    public_url: String,
    clock: SharedClock,
    /// The day, and the documents of that day.
    kept: Mutex<Option<(i64, Arc<Documents>)>>,
    missing: Document,
}

impl Docs {
    pub(crate) fn new(public_url: &str, clock: SharedClock) -> Self {
        let missing = Document::new(HTML, guides::missing(public_url).into());
        Self { public_url: public_url.to_owned(), clock, kept: Mutex::default(), missing }
    }

    pub(crate) async fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Answer {
        if method != Method::GET && method != Method::HEAD {
            return Err(method_not_allowed(&HeaderValue::from_static("GET, HEAD")));
        }
        let path = uri.path();
        let shorter = path.trim_end_matches('/');
        if shorter != path {
            let shorter = HeaderValue::try_from(shorter).unwrap_or(HeaderValue::from_static(HOME));
            return Ok(redirect(StatusCode::PERMANENT_REDIRECT, shorter));
        }
        let mut response = match self.documents().await?.get(path) {
            Some(found) => {
                let mut response = found.answer(headers).await;
                conditional::add_tag(&mut response, headers).await;
                response
            }
            None => {
                let mut response = self.missing.answer(headers).await;
                response.headers_mut().remove(ETAG);
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        };
        response.headers_mut().extend(HEADERS);
        Ok(response)
    }

    /// Returns the documents of today. A blocking thread builds them, because that takes too long for a thread of the
    /// runtime.
    async fn documents(&self) -> Result<Arc<Documents>, Failure> {
        let now_ms = self.clock.now_ms();
        let mut kept = self.kept.lock().await;
        if let Some((day, documents)) = &*kept
            && *day == day_of(now_ms)
        {
            return Ok(Arc::clone(documents));
        }
        let public_url = self.public_url.clone();
        let built = blocking::run(move || Arc::new(documents(&public_url, now_ms))).await;
        let documents = built.map_err(|_| Failure::incomplete())?;
        *kept = Some((day_of(now_ms), Arc::clone(&documents)));
        Ok(documents)
    }
}

/// The menus of all sections.
fn menu(site: &Site) -> Menu {
    let mut groups = guides::menu();
    groups.extend(reference::menu(site));
    Menu::new(groups)
}

/// The first page in the form of llmstxt.org: the name of the service, and its description in a sentence.
fn list_for_programs(home: &Page) -> String {
    let rest = home.markdown.split_once('\n').map_or("", |(_, rest)| rest);
    format!("# Trade Thesis Data Service\n\n> {}\n{rest}", home.summary)
}

/// Builds all pages and files.
fn documents(public_url: &str, now_ms: i64) -> Documents {
    let site = Site::new(public_url, now_ms);
    let menu = menu(&site);
    let mut pages = guides::pages(&site);
    pages.extend(grpc::pages(&site));
    pages.extend(reference::pages(&site));
    pages.push(guides::home(&site, &pages));

    let mut documents: Documents = grpc::files().map(|(path, text)| (path, Document::new(TEXT, text.into()))).collect();
    documents.insert(SEARCH.to_owned(), Document::new(JSON, search::index(&menu, &pages).into()));
    for page in pages {
        documents.insert(page.path.clone(), Document::new(HTML, page.html(&menu, public_url).into()));
        if page.path == HOME {
            documents.insert(LLMS.to_owned(), Document::new(TEXT, list_for_programs(&page).into()));
        }
        documents.insert(format!("{}.md", page.path), Document::new(MARKDOWN, page.markdown.into()));
    }
    documents
}

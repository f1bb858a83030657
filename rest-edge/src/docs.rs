//! The documentation at `/docs`: guides in Markdown, the errors, the proto files, and the interactive reference.
//! Everybody may read it. All visitors see the same pages, so the first request renders them once.

mod grpc;
mod guides;
mod markdown;
mod page;
mod reference;

use std::collections::HashMap;

use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{CONTENT_SECURITY_POLICY, ETAG},
};
use rest_edge_console::HEADERS;
use thesis_net::blocking;
use tokio::sync::OnceCell;

use self::page::Page;
use crate::{
    answer::{Answer, Failure, method_not_allowed, redirect},
    conditional,
    document::Document,
};

pub(crate) const HOME: &str = "/docs";
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// True if the path belongs to the documentation.
pub(crate) fn covers(path: &str) -> bool {
    path.strip_prefix(HOME).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The documentation of a service with one public URL.
pub(crate) struct Docs {
    public_url: String,
    reference_policy: HeaderValue,
    /// All pages and files by path. The first request builds them.
    documents: OnceCell<HashMap<String, Document>>,
    missing: Document,
}

impl Docs {
    pub(crate) fn new(public_url: &str) -> Self {
        Self {
            public_url: public_url.to_owned(),
            reference_policy: reference::policy(public_url),
            documents: OnceCell::new(),
            missing: document(&guides::missing()),
        }
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
        if path == reference::PATH {
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, self.reference_policy.clone());
        }
        Ok(response)
    }

    /// Returns all documents. A blocking thread builds them, because that takes too long for a thread of the runtime.
    async fn documents(&self) -> Result<&HashMap<String, Document>, Failure> {
        let public_url = self.public_url.clone();
        let make = async || blocking::run(move || documents(&public_url)).await;
        self.documents.get_or_try_init(make).await.map_err(|_| Failure::incomplete())
    }
}

fn document(page: &Page) -> Document {
    Document::new(HTML, page.html(guides::GROUPS).into())
}

/// Builds all pages and files, by path.
fn documents(public_url: &str) -> HashMap<String, Document> {
    let mut pages = guides::pages(public_url);
    pages.extend(grpc::pages(public_url));
    let index = guides::index(&pages);
    pages.extend([index, reference::page()]);
    let pages = pages.into_iter().map(|page| (page.path.clone(), document(&page)));
    let texts = grpc::files().map(|(path, text)| (path, Document::new(TEXT, text.into())));
    pages.chain(texts).chain(reference::files()).collect()
}

//! A document that does not change while the edge runs. It computes its tag once, and compresses once per encoding.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG},
};
use rest_edge_console::HEADERS;
use tokio::sync::OnceCell;

use crate::{
    answer::{Answer, Body, bytes, method_not_allowed},
    conditional::{add_tag, tag_of},
    encoding::{Encoding, smaller},
};

/// A document in all its encodings.
pub(crate) struct Document {
    kind: HeaderValue,
    tag: HeaderValue,
    bare: Bytes,
    /// `Some(None)` if compression does not make it smaller.
    gzip: OnceCell<Option<Bytes>>,
    zstd: OnceCell<Option<Bytes>>,
}

impl Document {
    pub(crate) fn new(kind: HeaderValue, bare: Bytes) -> Self {
        Self { kind, tag: tag_of(&bare), bare, gzip: OnceCell::new(), zstd: OnceCell::new() }
    }

    /// Responds with the client's preferred encoding and a tag.
    pub(crate) async fn answer(&self, request_headers: &HeaderMap) -> Response<Body> {
        let encoding = Encoding::preferred(request_headers);
        let compressed = match encoding {
            None => None,
            Some(encoding) => {
                let form = if encoding == Encoding::Gzip { &self.gzip } else { &self.zstd };
                let make = async || smaller(encoding, self.bare.clone()).await.map(Bytes::from);
                form.get_or_init(make).await.clone().map(|form| (encoding.name(), form))
            }
        };
        let (encoding, form) = compressed.map_or((None, self.bare.clone()), |(name, form)| (Some(name), form));
        let mut response = bytes(StatusCode::OK, form);
        let headers = response.headers_mut();
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, encoding);
        }
        headers.insert(CONTENT_TYPE, self.kind.clone());
        headers.insert(ETAG, self.tag.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, no-cache"));
        response
    }

    /// Responds to a request for this document as a page, with the headers of all pages.
    pub(crate) async fn page(&self, method: &Method, request_headers: &HeaderMap) -> Answer {
        if method != Method::GET && method != Method::HEAD {
            return Err(method_not_allowed(&HeaderValue::from_static("GET, HEAD")));
        }
        let mut response = self.answer(request_headers).await;
        add_tag(&mut response, request_headers).await;
        response.headers_mut().extend(HEADERS);
        Ok(response)
    }
}

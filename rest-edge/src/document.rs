//! A document that does not change while the edge runs: it is tagged once, and compressed once in each form that is asked for.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG},
};
use tokio::sync::OnceCell;

use crate::{
    answer::{Body, bytes},
    conditional::tag_of,
    encoding::{Encoding, smaller},
};

/// A document in each form in which it is sent.
pub(crate) struct Document {
    kind: HeaderValue,
    tag: HeaderValue,
    bare: Bytes,
    /// None inside where the compressed form is no smaller.
    gzip: OnceCell<Option<Bytes>>,
    zstd: OnceCell<Option<Bytes>>,
}

impl Document {
    /// A document of a media type.
    pub(crate) fn new(kind: HeaderValue, bare: Bytes) -> Self {
        Self { kind, tag: tag_of(&bare), bare, gzip: OnceCell::new(), zstd: OnceCell::new() }
    }

    /// The document in the form that a client likes best, with its tag.
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
}

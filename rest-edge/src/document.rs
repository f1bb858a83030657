//! A document that does not change while the edge runs: it is compressed and tagged once.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG},
};

use crate::{
    answer::{Body, bytes},
    conditional::tag_of,
    encoding::Encoding,
};

/// A document in each form in which it is sent.
pub(crate) struct Document {
    bare: Bytes,
    gzip: Bytes,
    zstd: Bytes,
    tag: HeaderValue,
}

impl Document {
    /// A document of JSON.
    pub(crate) fn new(bare: Bytes) -> Self {
        let compressed = |encoding: Encoding| encoding.compress(&bare).expect("memory takes every byte").into();
        let (gzip, zstd, tag) = (compressed(Encoding::Gzip), compressed(Encoding::Zstd), tag_of(&bare));
        Self { bare, gzip, zstd, tag }
    }

    /// The document in the form that a client likes best, with its tag.
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response<Body> {
        let encoding = Encoding::preferred(asked);
        let form = match encoding {
            None => &self.bare,
            Some(Encoding::Gzip) => &self.gzip,
            Some(Encoding::Zstd) => &self.zstd,
        };
        let mut response = bytes(StatusCode::OK, form.clone());
        let headers = response.headers_mut();
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, encoding.name());
        }
        headers.insert(ETAG, self.tag.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, no-cache"));
        response
    }
}

//! Compression of complete responses for clients that accept it.
//!
//! `tower_http::compression` does not keep the contract. It refuses a request that accepts no encoding with 406,
//! compresses while it sends, so the response has no `Content-Length`. It keeps a result that is larger than the
//! original, and compresses large bodies on the thread of other requests. Its body type also wraps each response.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{
    HeaderMap, HeaderValue, Response,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY},
};
use http_body_util::{Either, Full};
use hyper::body::Body as _;
use thesis_net::blocking;

use crate::answer::{Body, take_bytes};

/// Bodies below this size in bytes stay uncompressed, because they fit into one packet.
const MIN_BODY: u64 = 1024;
/// Bodies above this size in bytes are compressed on a blocking thread, so that other requests do not wait.
const MAX_AT_ONCE: usize = 64 * 1024;
/// Higher levels hardly make JSON smaller.
const GZIP_LEVEL: Compression = Compression::new(4);
const ZSTD_LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Zstd,
}

impl Encoding {
    /// The encoding that the client prefers; none if it prefers the plain body.
    pub(crate) fn preferred(headers: &HeaderMap) -> Option<Self> {
        let (mut gzip, mut zstd, mut bare, mut rest) = (None, None, None, None);
        let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        for item in values.flat_map(|text| text.split(',')) {
            let mut parts = item.split(';').map(str::trim);
            let slot = match &*parts.next().unwrap_or_default().to_ascii_lowercase() {
                "gzip" | "x-gzip" => &mut gzip,
                "zstd" => &mut zstd,
                "identity" => &mut bare,
                "*" => &mut rest,
                _ => continue,
            };
            let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            *slot = Some(quality.map_or(1.0, |text| text.parse::<f32>().unwrap_or_default()));
        }
        let of = |named: Option<f32>| named.or(rest).unwrap_or_default();
        let (quality, best) = if of(zstd) >= of(gzip) { (of(zstd), Self::Zstd) } else { (of(gzip), Self::Gzip) };
        (quality > 0.0 && quality >= bare.unwrap_or_default()).then_some(best)
    }

    pub(crate) fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }

    pub(crate) fn compress(self, body: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), GZIP_LEVEL);
                encoder.write_all(body)?;
                encoder.finish()
            }
            Self::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL),
        }
    }
}

/// Compresses a response unless it is compressed. Streams stay uncompressed, because their pieces must leave at once.
pub(crate) async fn encode(response: &mut Response<Body>, encoding: Option<Encoding>) {
    let encoding = encoding.filter(|_| !response.headers().contains_key(CONTENT_ENCODING));
    let Either::Left(body) = response.body_mut() else {
        return;
    };
    let mut encoded = None;
    if let Some(encoding) = encoding.filter(|_| body.size_hint().lower() >= MIN_BODY) {
        let bare = take_bytes(body).await;
        let smaller = smaller(encoding, bare.clone()).await;
        encoded = smaller.as_ref().map(|smaller| (encoding.name(), smaller.len()));
        *body = Full::new(smaller.map_or(bare, Into::into));
    }
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Some((name, length)) = encoded {
        headers.insert(CONTENT_ENCODING, name);
        headers.insert(CONTENT_LENGTH, length.into());
    }
}

/// The compressed body, if it is smaller.
pub(crate) async fn smaller(encoding: Encoding, bare: Bytes) -> Option<Vec<u8>> {
    let is_short = bare.len() <= MAX_AT_ONCE;
    let compress = move || encoding.compress(&bare).ok().filter(|smaller| smaller.len() < bare.len());
    if is_short { compress() } else { blocking::run(compress).await.ok().flatten() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_body_is_compressed_elsewhere() {
        for (size, elsewhere) in [(MAX_AT_ONCE, false), (16 * 1024 * 1024, true)] {
            let text = Bytes::from("0123456789abcdef".repeat(size / 16));
            let mut response = Response::new(Either::Left(Full::new(text.clone())));
            let mut encoding = Box::pin(encode(&mut response, Some(Encoding::Zstd)));
            // A body that needs no other thread is ready on the first poll.
            assert_eq!(futures::poll!(encoding.as_mut()).is_pending(), elsewhere, "{size}");
            if elsewhere {
                encoding.as_mut().await;
            }
            drop(encoding);
            assert_eq!(response.headers()[CONTENT_ENCODING], "zstd");
            let Either::Left(body) = response.body_mut() else { panic!("it is whole") };
            assert_eq!(zstd::decode_all(&take_bytes(body).await[..]).unwrap(), text);
        }
    }

    fn preferred(value: &'static str) -> Option<Encoding> {
        Encoding::preferred(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]))
    }

    #[test]
    fn the_best_liked_encoding_is_taken() {
        for value in ["zstd", "gzip, deflate, br, zstd", "*", "gzip;q=0.5,*;q=0.6", "ZSTD; q=0.1, identity;q=0"] {
            assert_eq!(preferred(value), Some(Encoding::Zstd), "{value}");
        }
        for value in ["gzip", "x-gzip", "gzip;q=1.0, zstd;q=0.5", "zstd;q=0, *", "br, GZip;Q=0.3"] {
            assert_eq!(preferred(value), Some(Encoding::Gzip), "{value}");
        }
        for value in ["", "br", "identity", "gzip;q=0", "*;q=0", "gzip;q=0.5, identity", "gzip;q=much", "zstd;q=nan"] {
            assert_eq!(preferred(value), None, "{value}");
        }
        assert_eq!(Encoding::preferred(&HeaderMap::new()), None);
    }
}

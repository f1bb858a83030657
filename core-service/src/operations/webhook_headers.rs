//! The headers that customers give to their webhooks: which ones are allowed, and how they are stored.

use thesis_proto::v1;

use super::fields::Fields;
use crate::{
    domain::control::{Webhook, WebhookHeader},
    error::Result,
    keys::key_ring::{KeyRing, SealPurpose},
};

/// Maximum number of a webhook's headers.
const MAX_HEADERS: usize = 10;
/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 256;
/// Maximum bytes of all names and values of a webhook together.
const MAX_BYTES: usize = 4096;
/// Bytes that encryption adds to a value.
const SEAL_BYTES: usize = 28;

/// Names that HTTP, signatures or this service use, in lower case.
const RESERVED_NAMES: &[&str] = &[
    "accept-encoding",
    "connection",
    "date",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "signature",
    "signature-input",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// Prefixes of names that HTTP, signatures or this service use.
const RESERVED_PREFIXES: &[&str] = &["content-", "proxy-", "service-", "webhook-", "x-service-"];

/// True if HTTP allows the name.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// True if HTTP carries the value unchanged.
fn is_value(value: &str) -> bool {
    let is_visible = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    !value.is_empty() && value.bytes().all(is_visible) && value.trim_matches(' ') == value
}

fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED_NAMES.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Checks the headers of a request. Only in an update may a header lack its value, which removes the header.
pub(super) fn check(fields: &mut Fields, headers: &[v1::WebhookHeader], is_update: bool) {
    if headers.len() > 2 * MAX_HEADERS {
        let rule = if is_update {
            format!("a request sets and removes {} headers at most", 2 * MAX_HEADERS)
        } else {
            format!("a webhook has {MAX_HEADERS} headers at most")
        };
        fields.reject("headers", rule);
        return;
    }
    for (index, v1::WebhookHeader { name, value }) in headers.iter().enumerate() {
        let param = format!("headers.{name}");
        if !is_name(name) {
            let rule = format!("each name must have 1 to {MAX_NAME_BYTES} letters, digits or any of !#$%&'*+-.^_`|~");
            fields.reject("headers", rule);
        } else if is_reserved(name) {
            fields.reject(&param, "HTTP, signatures or this service use this name; take another");
        } else if headers[..index].iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
            fields.reject(&param, "must be given once; upper and lower case are the same");
        } else if value.as_deref().is_some_and(|value| !is_value(value)) {
            fields.reject(&param, "must have visible ASCII characters, and spaces only between them");
        } else if value.is_none() && !is_update {
            fields.reject(&param, "is required");
        }
    }
}

/// Returns the headers of a webhook after a checked request. A header with an unchanged value keeps its stored
/// ciphertext, so a repeated request changes nothing.
pub(super) fn merge(keys: &KeyRing, webhook: &Webhook, given: &[v1::WebhookHeader]) -> Result<Vec<WebhookHeader>> {
    let mut headers = webhook.headers.clone();
    for v1::WebhookHeader { name, value } in given {
        let purpose = SealPurpose::WebhookHeader { webhook: &webhook.id, name };
        let place = headers.iter().position(|header| header.name.eq_ignore_ascii_case(name));
        match (place, value) {
            (Some(place), None) => {
                headers.remove(place);
            }
            (None, None) => {}
            (Some(place), Some(value)) => {
                let header = &headers[place];
                let is_same =
                    header.name == *name && keys.open(purpose, &header.value).as_deref() == Some(value.as_bytes());
                if !is_same {
                    headers[place] = WebhookHeader { name: name.clone(), value: keys.seal(purpose, value.as_bytes()) };
                }
            }
            (None, Some(value)) => {
                headers.push(WebhookHeader { name: name.clone(), value: keys.seal(purpose, value.as_bytes()) });
            }
        }
    }
    let mut fields = Fields::default();
    if headers.len() > MAX_HEADERS {
        fields.reject("headers", format!("a webhook has {MAX_HEADERS} headers at most"));
    }
    let bytes = |header: &WebhookHeader| header.name.len() + header.value.len().saturating_sub(SEAL_BYTES);
    if headers.iter().map(bytes).sum::<usize>() > MAX_BYTES {
        fields.reject("headers", format!("names and values of a webhook have {MAX_BYTES} bytes together at most"));
    }
    fields.finish()?;
    Ok(headers)
}

/// Returns the headers with keyed hashes in place of the values. The record of an idempotent request has a hash of the
/// request. Without the key, somebody could guess a short value from that hash.
pub(super) fn hash_values(keys: &KeyRing, headers: &[v1::WebhookHeader]) -> Vec<v1::WebhookHeader> {
    let hash = |value: &String| hex::encode(keys.key_hash(value));
    let hashed = |header: &v1::WebhookHeader| v1::WebhookHeader {
        name: header.name.clone(),
        value: header.value.as_ref().map(hash),
    };
    headers.iter().map(hashed).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thesis_net::clock::SystemIdSource;

    use super::*;

    fn header(name: &str, value: &str) -> v1::WebhookHeader {
        v1::WebhookHeader { name: name.to_owned(), value: Some(value.to_owned()) }
    }

    fn removal(name: &str) -> v1::WebhookHeader {
        v1::WebhookHeader { name: name.to_owned(), value: None }
    }

    fn keys() -> KeyRing {
        KeyRing::new(&[1; 32], Arc::new(SystemIdSource))
    }

    /// Decrypts the stored headers, in their order.
    fn opened(keys: &KeyRing, webhook: &Webhook) -> Vec<(String, String)> {
        let open = |header: &WebhookHeader| {
            let purpose = SealPurpose::WebhookHeader { webhook: &webhook.id, name: &header.name };
            (header.name.clone(), String::from_utf8(keys.open(purpose, &header.value).unwrap()).unwrap())
        };
        webhook.headers.iter().map(open).collect()
    }

    fn passes(headers: &[v1::WebhookHeader], is_update: bool) -> bool {
        let mut fields = Fields::default();
        check(&mut fields, headers, is_update);
        fields.finish().is_ok()
    }

    #[test]
    fn names_of_http_signatures_and_the_service_are_reserved() {
        for name in ["Host", "content-LENGTH", "Content-Type", "transfer-encoding", "Connection", "TE", "upgrade"] {
            assert!(!passes(&[header(name, "x")], false), "{name}");
        }
        for name in ["Accept-Encoding", "Date", "Forwarded", "Via"] {
            assert!(!passes(&[header(name, "x")], false), "{name}");
        }
        for name in ["webhook-id", "Webhook-Signature", "service-signature", "X-Service-Token", "User-Agent"] {
            assert!(!passes(&[header(name, "x")], false), "{name}");
        }
        for name in ["Authorization", "X-Api-Key", "hosts", "cookie", "tea", "x-webhook-id", "accept"] {
            assert!(passes(&[header(name, "x")], false), "{name}");
        }
    }

    #[test]
    fn names_and_values_are_those_of_http() {
        let long = "n".repeat(257);
        for name in ["", "a b", "a:b", "ä", "a\r\nb", long.as_str()] {
            assert!(!passes(&[header(name, "x")], false), "{name:?}");
        }
        assert!(passes(&[header(&long[1..], "x")], false));
        for value in ["", " x", "x ", "x\r\ny", "ä", "\t", "x\u{7f}"] {
            assert!(!passes(&[header("X-A", value)], false), "{value:?}");
        }
        assert!(passes(&[header("X-A", "Bearer a/b+c= \"d\"")], false));
        assert!(!passes(&[header("X-A", "1"), header("x-a", "2")], false));
        assert!(passes(&[removal("X-A")], true) && !passes(&[removal("X-A")], false));
    }

    #[test]
    fn an_update_sets_and_removes_and_repeats_nothing() {
        let keys = keys();
        let mut webhook = Webhook { id: "wh_1".to_owned(), ..Webhook::default() };
        let mut set = |given: &[v1::WebhookHeader]| {
            webhook.headers = merge(&keys, &webhook, given).unwrap();
            (webhook.headers.clone(), opened(&keys, &webhook))
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (first, shown) = set(&[header("X-A", "1"), header("X-B", "2")]);
        assert_eq!(shown, [pair("X-A", "1"), pair("X-B", "2")]);
        let (again, _) = set(&[header("X-A", "1")]);
        assert_eq!(again, first, "the same value is not encrypted anew");
        let (_, shown) = set(&[header("x-a", "3"), removal("X-C")]);
        assert_eq!(shown, [pair("x-a", "3"), pair("X-B", "2")]);
        let (_, shown) = set(&[removal("x-b")]);
        assert_eq!(shown, [pair("x-a", "3")]);
    }

    #[test]
    fn a_webhook_has_ten_headers_of_4_kib() {
        let keys = keys();
        let empty = Webhook { id: "wh_1".to_owned(), ..Webhook::default() };
        let numbered = |count: usize| (0..count).map(|n| header(&format!("X-{n}"), "v")).collect::<Vec<_>>();
        let full = merge(&keys, &empty, &numbered(10)).unwrap();
        assert!(merge(&keys, &empty, &numbered(11)).is_err());
        let full = Webhook { headers: full, ..empty.clone() };
        assert!(merge(&keys, &full, &[header("X-New", "v")]).is_err());
        assert!(merge(&keys, &full, &[header("X-New", "v"), removal("X-0")]).is_ok());
        let of_bytes = |bytes: usize| merge(&keys, &empty, &[header("X-A", &"v".repeat(bytes - 3))]);
        assert!(of_bytes(4096).is_ok() && of_bytes(4097).is_err());
    }

    #[test]
    fn a_request_sets_and_removes_twenty() {
        let message = |count: usize, is_update: bool| {
            let headers: Vec<_> = (0..count).map(|number| header(&format!("X-{number}"), "v")).collect();
            let mut fields = Fields::default();
            check(&mut fields, &headers, is_update);
            fields.finish().err().map(|error| error.api.message.clone())
        };
        assert_eq!((message(20, true), message(20, false)), (None, None));
        let (update, creation) = (message(21, true).unwrap(), message(21, false).unwrap());
        assert!(update.contains("a request sets and removes 20 headers at most"), "{update}");
        assert!(creation.contains("a webhook has 10 headers at most"), "{creation}");
    }

    #[test]
    fn hashes_distinguish_values_and_hide_them() {
        let keys = keys();
        let of = |value: &str| hash_values(&keys, &[header("X-A", value)]).remove(0).value.unwrap();
        assert_eq!(of("secret"), of("secret"));
        assert_ne!(of("secret"), of("other"));
        assert!(!of("secret").contains("secret"));
    }
}

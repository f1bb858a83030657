//! Masks a webhook's secrets in the responses of its endpoint: endpoints may echo what they were sent, and the first
//! bytes of a response can be read by all members of the project.

use bytes::Bytes;
use thesis_proto::{v1::ClaimResponse, webhook::SECRET_PREFIX};

/// The replacement of secrets.
const MASK: &[u8] = b"[hidden]";
/// Minimum length of a word that is a secret by itself, such as the credentials after `Bearer`.
const MIN_WORD_BYTES: usize = 8;
/// Minimum length of a secret that is masked inside of words too: a shorter one would be found in many, and the places
/// would reveal it. Also that of the beginning of a secret at the end of a text that was cut there.
const MIN_PART_BYTES: usize = 4;

/// Replaces the values of the webhook's own headers and its signing secrets in the beginning of a response. The result
/// may be longer.
pub(crate) fn mask(body: Bytes, claim: &ClaimResponse) -> Bytes {
    let secrets = secret_texts(claim);
    let mut is_secret = vec![false; body.len()];
    for start in 0..body.len() {
        let rest = &body[start..];
        for secret in &secrets {
            let length = secret.len().min(rest.len());
            let is_long_enough = length >= MIN_PART_BYTES || length == secret.len() && is_alone(&body, start, length);
            if is_long_enough && rest[..length] == secret.as_bytes()[..length] {
                is_secret[start..start + length].fill(true);
            }
        }
    }
    if !is_secret.contains(&true) {
        return body;
    }
    let mut masked = Vec::with_capacity(body.len() + MASK.len());
    for (at, byte) in body.iter().enumerate() {
        if !is_secret[at] {
            masked.push(*byte);
        } else if at == 0 || !is_secret[at - 1] {
            masked.extend_from_slice(MASK);
        }
    }
    masked.into()
}

/// True if no letter or digit is beside a part of a text.
fn is_alone(text: &[u8], start: usize, length: usize) -> bool {
    let before = start.checked_sub(1).and_then(|at| text.get(at));
    ![before, text.get(start + length)].into_iter().flatten().any(u8::is_ascii_alphanumeric)
}

/// The texts that are masked, as they are and as JSON has them.
fn secret_texts(claim: &ClaimResponse) -> Vec<String> {
    let values = claim.headers.iter().filter_map(|header| header.value.as_deref());
    let words = values.clone().flat_map(str::split_whitespace).filter(|word| word.len() >= MIN_WORD_BYTES);
    let signing = claim.secrets.iter().map(|secret| secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret));
    let mut texts = Vec::new();
    for text in values.chain(words).chain(signing).filter(|text| !text.is_empty()) {
        let in_json = text.replace('\\', r"\\").replace('"', "\\\"");
        // Some libraries also escape slashes.
        texts.extend([text.to_owned(), in_json.replace('/', r"\/"), in_json]);
    }
    texts
}

#[cfg(test)]
mod tests {
    use thesis_proto::v1::WebhookHeader;

    use super::*;

    fn masked(values: &[&str], body: &str) -> String {
        let headers = values.iter().map(|value| WebhookHeader { name: "X-Key".into(), value: Some((*value).into()) });
        let secrets = vec!["whsec_c2VjcmV0".into(), "plain-secret".into()];
        let claim = ClaimResponse { headers: headers.collect(), secrets, ..ClaimResponse::default() };
        String::from_utf8(mask(body.to_owned().into(), &claim).to_vec()).unwrap()
    }

    #[test]
    fn each_value_and_secret_is_masked() {
        let values = ["Bearer 0123456789", "short"];
        for (body, expected) in [
            ("nothing here", "nothing here"),
            ("", ""),
            ("x-key: short, short!", "x-key: [hidden], [hidden]!"),
            ("got Bearer 0123456789.", "got [hidden]."),
            ("no such key: 0123456789", "no such key: [hidden]"),
            ("Bearer of bad news", "Bearer of bad news"),
            ("signed with whsec_c2VjcmV0 or plain-secret", "signed with whsec_[hidden] or [hidden]"),
            ("shortshort", "[hidden]"),
        ] {
            assert_eq!(masked(&values, body), expected, "{body}");
        }
    }

    #[test]
    fn a_short_value_is_masked_where_it_stands_alone() {
        let body = r#"{"v":1,"n":101,"of":"x1"} 1"#;
        assert_eq!(masked(&["1"], body), r#"{"v":[hidden],"n":101,"of":"x1"} [hidden]"#);
        assert_eq!(masked(&["abc"], "abc, abcd"), "[hidden], abcd");
        assert_eq!(masked(&["abcd"], "abcde"), "[hidden]e");
    }

    #[test]
    fn a_value_that_the_end_cuts_is_masked() {
        assert_eq!(masked(&["Bearer 0123456789"], "key Bearer 01"), "key [hidden]");
        assert_eq!(masked(&["Bearer 0123456789"], "key 0123"), "key [hidden]");
        // So few bytes reveal nothing.
        assert_eq!(masked(&["Bearer 0123456789"], "key Bea"), "key Bea");
    }

    #[test]
    fn values_that_overlap_and_escaped_ones_are_masked() {
        assert_eq!(masked(&["abcdef", "defghijk"], "<abcdefghijk>"), "<[hidden]>");
        // The mask itself stays whole.
        assert_eq!(masked(&["e", "hid"], "<e>"), "<[hidden]>");
        assert_eq!(
            masked(&[r#"a"b/c\d"#], r#"{"1":"a\"b/c\\d","2":"a\"b\/c\\d"}"#),
            r#"{"1":"[hidden]","2":"[hidden]"}"#
        );
    }
}

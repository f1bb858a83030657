//! Masks a webhook's secrets in the responses of its endpoint: endpoints may echo a request, and all members
//! of the project can read the first bytes of a response. An endpoint may escape them for JSON, HTML or a URL, and then
//! once more: a page may show JSON, and JSON may have a text that is JSON itself.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use thesis_proto::{v1::ClaimResponse, webhook::SECRET_PREFIX};

/// The replacement of secrets.
const MASK: &[u8] = b"[hidden]";
/// Minimum length of a word that is a secret by itself, such as the credentials after `Bearer`.
const MIN_WORD_BYTES: usize = 8;
/// Minimum length of a secret that is masked inside of words too: a shorter one would be found in many, and the places
/// would reveal it. Also that of the beginning of a secret at the end of a text that was cut there.
const MIN_PART_BYTES: usize = 4;
/// Maximum length of an escaped character, such as `&#x0026;`.
const MAX_ESCAPE_BYTES: usize = 8;

/// The byte with which escapes begin, and a function that reads an escape at the beginning of a text: it returns the
/// character and the length of the escape.
type Notation = (Option<u8>, fn(&[u8]) -> Option<(u8, usize)>);

const NOTATIONS: [Notation; 4] =
    [(None, |_| None), (Some(b'\\'), json_escape), (Some(b'&'), html_escape), (Some(b'%'), url_escape)];

/// Replaces the values of the webhook's own headers and its signing secrets in the beginning of a response. The result
/// may be longer.
pub(crate) fn mask(body: Bytes, claim: &ClaimResponse) -> Bytes {
    let secrets = secret_texts(claim);
    let mut is_secret = vec![false; body.len()];
    for outer in NOTATIONS {
        let Some((once, places)) = unescaped(&body, outer) else { continue };
        for inner in NOTATIONS {
            let Some((text, places_in_once)) = unescaped(&once, inner) else { continue };
            for start in 0..text.len() {
                let length = secret_length(&text, start, &secrets);
                let [from, to] = [start, start + length].map(|at| places[places_in_once[at]]);
                is_secret[from..to].fill(true);
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

/// A text without its escapes, and the places of its characters and of its end in the escaped text. None if no
/// escape of the notation begins in the text: the first of [`NOTATIONS`] reads such a text as it is.
fn unescaped(body: &[u8], (mark, escape): Notation) -> Option<(Vec<u8>, Vec<usize>)> {
    if mark.is_some_and(|mark| !body.contains(&mark)) {
        return None;
    }
    let (mut text, mut places, mut at) = (Vec::with_capacity(body.len()), vec![0], 0_usize);
    while let Some(first) = body.get(at) {
        let found = if mark == Some(*first) { escape(&body[at..]) } else { Some((*first, 1)) };
        // The end may have cut an escape.
        if found.is_none() && body.len() - at < MAX_ESCAPE_BYTES {
            break;
        }
        let (byte, length) = found.unwrap_or((*first, 1));
        at += length;
        text.push(byte);
        places.push(at);
    }
    Some((text, places))
}

fn json_escape(text: &[u8]) -> Option<(u8, usize)> {
    match text {
        [_, byte @ (b'"' | b'\\' | b'/'), ..] => Some((*byte, 2)),
        [_, b'u', code @ ..] => Some((hex_number(code.get(..4)?)?, 6)),
        _ => None,
    }
}

fn html_escape(text: &[u8]) -> Option<(u8, usize)> {
    let end = text.iter().take(MAX_ESCAPE_BYTES).position(|byte| *byte == b';')?;
    let byte = match &text[1..end] {
        b"amp" => b'&',
        b"lt" => b'<',
        b"gt" => b'>',
        b"quot" => b'"',
        b"apos" => b'\'',
        [b'#', b'x' | b'X', digits @ ..] => hex_number(digits)?,
        [b'#', digits @ ..] => str::from_utf8(digits).ok()?.parse().ok()?,
        _ => return None,
    };
    Some((byte, end + 1))
}

fn url_escape(text: &[u8]) -> Option<(u8, usize)> {
    Some((hex_number(text.get(1..3)?)?, 3))
}

fn hex_number(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// The length of the longest secret at a place of a text, or zero. The secrets are in order.
fn secret_length(text: &[u8], start: usize, mut secrets: &[Vec<u8>]) -> usize {
    let mut longest = 0;
    for (index, byte) in text[start..].iter().enumerate() {
        // The secrets that begin like the text up to this byte. The shortest comes first.
        let from = secrets.partition_point(|secret| secret.get(index) < Some(byte));
        let to = secrets.partition_point(|secret| secret.get(index) <= Some(byte));
        secrets = &secrets[from..to];
        let Some(shortest) = secrets.first() else { return longest };
        let length = index + 1;
        if shortest.len() == length && (length >= MIN_PART_BYTES || is_alone(text, start, length)) {
            longest = length;
        }
    }
    let rest = text.len() - start;
    if rest >= MIN_PART_BYTES { rest } else { longest }
}

/// True if no letter or digit is beside a part of a text.
fn is_alone(text: &[u8], start: usize, length: usize) -> bool {
    let before = start.checked_sub(1).and_then(|at| text.get(at));
    ![before, text.get(start + length)].into_iter().flatten().any(u8::is_ascii_alphanumeric)
}

/// The texts that are masked, each once and in order.
fn secret_texts(claim: &ClaimResponse) -> Vec<Vec<u8>> {
    let values = claim.headers.iter().filter_map(|header| header.value.as_deref());
    let words = values.clone().flat_map(str::split_whitespace).filter(|word| word.len() >= MIN_WORD_BYTES);
    let signing = claim.secrets.iter().map(|secret| secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret));
    // The data of a form has plus signs in place of spaces.
    let forms = values.clone().chain(words).chain(signing).flat_map(|text| [text.to_owned(), text.replace(' ', "+")]);
    let mut texts: Vec<Vec<u8>> = forms.map(String::into_bytes).collect();
    for credentials in values.filter_map(basic_credentials) {
        let colon = credentials.iter().position(|byte| *byte == b':');
        texts.extend(colon.map(|colon| credentials[colon + 1..].to_vec()));
        texts.push(credentials);
    }
    texts.retain(|text| !text.is_empty());
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// The name and the password in the value of an `Authorization: Basic`.
fn basic_credentials(value: &str) -> Option<Vec<u8>> {
    let (scheme, encoded) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("basic") { BASE64_STANDARD.decode(encoded.trim()).ok() } else { None }
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
    fn a_short_value_is_masked_only_as_a_whole_word() {
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
        let values = [r#"k<e>y&"of/a\b%2F"#, "my secret"];
        for (body, expected) in [
            (r#"{"1":"k\u003ce\u003Ey\u0026\"of\/a\\b%2F"}"#, r#"{"1":"[hidden]"}"#),
            ("<p>k&lt;e&gt;y&amp;&quot;of/a\\b%2F</p>", "<p>[hidden]</p>"),
            ("<p>k&#60;e&#x3E;y&#038;&#34;of/a\\b%2F</p>", "<p>[hidden]</p>"),
            ("?x=k%3ce%3Ey%26%22of%2Fa%5Cb%252F&y", "?x=[hidden]&y"),
            (r#"as it is: k<e>y&"of/a\b%2F"#, "as it is: [hidden]"),
            ("my+secret", "[hidden]"),
            // The end cuts these in the middle of an escape.
            (r"k\u003ce\u003Ey\u00", r"[hidden]\u00"),
            ("k&lt;e&gt;y&am", "[hidden]&am"),
            (r"\u003c &lt; %3c", r"\u003c &lt; %3c"),
        ] {
            assert_eq!(masked(&values, body), expected, "{body}");
        }
    }

    #[test]
    fn values_that_are_escaped_twice_are_masked() {
        let values = [r#"k<e>y&"of/a\b%2F"#, "my secret"];
        for (body, expected) in [
            // JSON in JSON.
            (r#"{"sent":"{\"1\":\"k<e>y&\\\"of/a\\\\b%2F\"}"}"#, r#"{"sent":"{\"1\":\"[hidden]\"}"}"#),
            (r"k\\u003ce\\u003Ey\\u0026\\u0022of/a\\u005Cb%2F!", "[hidden]!"),
            // A URL in a URL.
            ("?x=k%253ce%253Ey%2526%2522of%252Fa%255Cb%25252F&y", "?x=[hidden]&y"),
            ("?x=my%2Bsecret&y", "?x=[hidden]&y"),
            // JSON in HTML, HTML in JSON, JSON in a URL.
            (r"<p>&quot;k&lt;e&gt;y&amp;\&quot;of/a\\b%2F&quot;</p>", "<p>&quot;[hidden]&quot;</p>"),
            (r#""k\u0026lt;e\u0026gt;y\u0026amp;\u0026quot;of/a\\b%2F""#, r#""[hidden]""#),
            ("?x=%22k%3Ce%3Ey%26%5C%22of%2Fa%5C%5Cb%252F%22", "?x=%22[hidden]%22"),
            // The end cuts these in the middle of an escape.
            (r"k\\u003ce\\u003Ey\\u00", r"[hidden]\\u00"),
            ("k%253ce%253Ey%252", "[hidden]%252"),
        ] {
            assert_eq!(masked(&values, body), expected, "{body}");
        }
    }

    #[test]
    fn a_text_is_read_only_in_notations_that_it_may_have() {
        let read = |text: &str| NOTATIONS.map(|notation| unescaped(text.as_bytes(), notation).is_some());
        assert_eq!(read("{\"ok\": true}"), [true, false, false, false]);
        assert_eq!(read(r"a\b &amp; c"), [true, true, true, false]);
        assert_eq!(read("50%"), [true, false, false, true]);
    }

    #[test]
    fn the_longest_of_secrets_with_the_same_beginning_is_masked() {
        let values = ["token-1", "token-12", "token-2", "token-1"];
        assert_eq!(masked(&values, "token-12345, token-13 token-3"), "[hidden]345, [hidden]3 token-3");
        assert_eq!(masked(&values, "token-2 token-"), "[hidden] [hidden]");
    }

    #[test]
    fn decoded_credentials_are_masked() {
        assert_eq!(masked(&["Basic dXNlcjpwYXNz"], "not user:pass, nor pass"), "not [hidden], nor [hidden]");
        assert_eq!(masked(&["basic dXNlcjpwYXNz"], "dXNlcjpwYXNz of a user."), "[hidden] of a user.");
        assert_eq!(masked(&["Basic no base64"], "user:pass"), "user:pass");
    }
}

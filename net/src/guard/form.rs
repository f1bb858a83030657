//! The form of a URL as it was given.

#[cfg(test)]
mod tests;

use super::Refusal;

/// Judges whether a text is an absolute URI of RFC 3986 with an authority, before it is parsed. Programs that repair a
/// wrong URL do not agree on the result, so a wrong one is refused: it has whitespace, control characters, a backslash,
/// no `//`, or another character that should have been percent-encoded. A fragment may follow.
///
/// # Errors
/// [`Refusal::Scheme`] where the text does not begin with a scheme and `://`, [`Refusal::Credentials`] for empty
/// credentials. For everything else [`Refusal::Hostname`], or [`Refusal::Scheme`] where the scheme is wrong too.
pub fn judge_form(url: &str) -> Result<(), Refusal> {
    let (scheme, rest) = url.split_once("://").ok_or(Refusal::Scheme)?;
    let of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(of_scheme) {
        return Err(Refusal::Scheme);
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // Empty credentials count too: a parsed URL does not show them.
    if authority.starts_with('@') || authority.starts_with(":@") {
        return Err(Refusal::Credentials);
    }
    let has_form = !authority.is_empty()
        // The places of brackets and signs are judged with the host.
        && consists_of(authority, b":@[]")
        && consists_of(path, b"/:@")
        && consists_of(query, b"/?:@")
        && consists_of(fragment, b"/?:@");
    let is_http = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    match (has_form, is_http) {
        (true, _) => Ok(()),
        (false, true) => Err(Refusal::Hostname),
        (false, false) => Err(Refusal::Scheme),
    }
}

/// True if a text has only unreserved characters, sub-delimiters, percent-encoded bytes and these others.
fn consists_of(text: &str, others: &[u8]) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let fits = match byte {
            b'%' => {
                [bytes.next(), bytes.next()].iter().all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
            }
            _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte) || others.contains(&byte),
        };
        if !fits {
            return false;
        }
    }
    true
}

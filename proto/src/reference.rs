//! References by which clients name profiles and tokens. Lookups, lists, verification, filters and their indexes all
//! read references and compare case here, so that a reference means the same everywhere.
//!
//! A lookup takes the first reading that exists. A filter sees one event and not which tokens exist, so it matches when
//! any reading fits.

use std::iter::once;

use crate::v1::TokenRef;

/// The readings of a reference to tokens. A lookup tries them in the order of the fields, and the first that finds a
/// token counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenReadings {
    /// A `tk_` id.
    pub id: Option<String>,
    /// A chain and the form of an address on it.
    pub on_chain: Option<(String, String)>,
    /// The form of an address on any chain; `None` after a `$`.
    pub address: Option<String>,
    /// The form of a symbol.
    pub symbol: String,
}

impl TokenReadings {
    /// Reads a reference; `None` if the text is no reference.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let symbol = symbol_form(text);
        if text.starts_with('$') {
            return (text != "$").then_some(Self { id: None, on_chain: None, address: None, symbol });
        }
        let on_chain = match text.split_once(':') {
            Some(("", _) | (_, "")) => return None,
            Some((chain, address)) => Some((chain.to_owned(), address_form(address))),
            None if text.is_empty() => return None,
            None => None,
        };
        let id = text.starts_with("tk_").then(|| text.to_owned());
        Some(Self { id, on_chain, address: Some(address_form(text)), symbol })
    }

    /// True if any reading means this token. Filters judge one event at a time and cannot know which other tokens
    /// exist, so no reading hides another here.
    #[must_use]
    pub fn matches(&self, token: &TokenRef) -> bool {
        self.id.as_ref() == Some(&token.id)
            || self.on_chain.as_ref().is_some_and(|(on, at)| *on == token.chain && is_address(at, &token.address))
            || self.address.as_ref().is_some_and(|at| is_address(at, &token.address))
            || symbol_chars(&token.symbol).eq(self.symbol.chars())
    }
}

/// Text without differences of case.
#[must_use]
pub fn fold(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { folded(text).collect() }
}

/// Text without differences of case: as [`fold`], but a dotless ı is not an i. This is Unicode's default case folding
/// but for the Cherokee letters, which are lower case here and upper case there.
#[must_use]
pub fn default_fold(text: &str) -> String {
    text.split('ı').map(fold).collect::<Vec<_>>().join("ı")
}

/// Case folding goes to lower, to upper and to lower case: ẞ, ß and ss become equal, as do Σ, σ and ς. Each character
/// is taken alone: the end of a word changes nothing.
fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase).flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// The form of a handle by which it is found: folded, without its `@`.
#[must_use]
pub fn handle_form(handle: &str) -> String {
    fold(handle.strip_prefix('@').unwrap_or(handle))
}

/// True if a handle has this form.
#[must_use]
pub fn is_handle(form: &str, handle: &str) -> bool {
    folded(handle.strip_prefix('@').unwrap_or(handle)).eq(form.chars())
}

/// The form of a symbol by which it is found: upper case, with its `$`. It is shown as the upstream writes it.
#[must_use]
pub fn symbol_form(symbol: &str) -> String {
    symbol_chars(symbol).collect()
}

fn symbol_chars(symbol: &str) -> impl Iterator<Item = char> {
    once('$').chain(folded(symbol.strip_prefix('$').unwrap_or(symbol)).flat_map(char::to_uppercase))
}

/// The form of an address by which it is found. In a hexadecimal one the case is at most a checksum; other alphabets
/// tell cases apart.
#[must_use]
pub fn address_form(address: &str) -> String {
    if is_hexadecimal(address) { address.to_ascii_lowercase() } else { address.to_owned() }
}

fn is_address(form: &str, address: &str) -> bool {
    if is_hexadecimal(form) { form.eq_ignore_ascii_case(address) } else { form == address }
}

fn is_hexadecimal(address: &str) -> bool {
    let digits = address.strip_prefix("0x").or_else(|| address.strip_prefix("0X"));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_reading_of_a_reference() {
        let read = |text| {
            let TokenReadings { id, on_chain, address, symbol } = TokenReadings::parse(text).unwrap();
            (id.is_some(), on_chain, address, symbol)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("$run"), (false, None, None, "$RUN".to_owned()));
        assert_eq!(read("$tk_1:0X"), (false, None, None, "$TK_1:0X".to_owned()));
        assert_eq!(read("tk_x"), (true, None, some("tk_x"), "$TK_X".to_owned()));
        assert_eq!(read("0XAb"), (false, None, some("0xab"), "$0XAB".to_owned()));
        assert_eq!(read("So1AnA"), (false, None, some("So1AnA"), "$SO1ANA".to_owned()));
        let base = Some(("base".to_owned(), "0xab".to_owned()));
        assert_eq!(read("base:0XAB"), (false, base, some("base:0XAB"), "$BASE:0XAB".to_owned()));
        let sui = Some(("0x2".to_owned(), ":sui::SUI".to_owned()));
        assert_eq!(read("0x2::sui::SUI"), (false, sui, some("0x2::sui::SUI"), "$0X2::SUI::SUI".to_owned()));
        for nothing in ["", "$", ":", ":a", "a:"] {
            assert_eq!(TokenReadings::parse(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn case_does_not_count() {
        for (one, other) in [("ΟΔΟΣ", "οδος"), ("οδος", "οδοσ"), ("STRASSE", "straße"), ("ẞ", "ss"), ("ПОЛЁТ", "полёт")]
        {
            assert_eq!(fold(one), fold(other));
            assert_eq!(handle_form(&format!("@{one}")), handle_form(other));
            assert_eq!(symbol_form(&format!("${one}")), symbol_form(other));
            assert!(is_handle(&handle_form(one), other) && is_handle(&handle_form(other), one));
        }
        assert_eq!(
            [handle_form("@RunNer"), symbol_form("straße"), symbol_form("$run")],
            ["runner", "$STRASSE", "$RUN"]
        );
        assert_ne!(fold("e\u{301}"), fold("é"), "folded, not normalised");
        assert_eq!((fold("IŞıK"), default_fold("IŞıK")), ("işik".to_owned(), "işık".to_owned()));
        assert_eq!(["0XAB", "0X", "0xAg", "So1AnA"].map(address_form), ["0xab", "0X", "0xAg", "So1AnA"]);
    }

    proptest! {
        #[test]
        fn a_form_is_its_own(text in "\\PC{0,12}") {
            prop_assert_eq!(fold(&fold(&text)), fold(&text));
            prop_assert_eq!(symbol_form(&symbol_form(&text)), symbol_form(&text));
            prop_assert_eq!(address_form(&address_form(&text)), address_form(&text));
            prop_assert!(is_handle(&handle_form(&text), &text));
        }

        #[test]
        fn case_never_counts(text in "\\PC{0,12}") {
            prop_assert_eq!(fold(&text.to_uppercase()), fold(&text));
            prop_assert_eq!(symbol_form(&text.to_lowercase()), symbol_form(&text));
        }
    }
}

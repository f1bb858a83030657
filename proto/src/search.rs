//! The syntax of searches: words are AND-ed, `"a phrase"`, `-word`, `OR`, `prefix*`. `OR` separates alternatives: the
//! words between two `OR` are AND-ed first. Filters of events have the same syntax.

mod text;
mod text_filter;
mod text_key;
pub mod words;

pub(crate) use self::text_key::KEY_KINDS;
use self::words::{Word, exact, words};
pub use self::{text::TextIndex, text_filter::TextFilter, text_key::TextKey};

/// Maximum number of words that end in `*` in one search: each can match many words.
const MAX_PREFIXES: usize = 8;

/// Maximum number of words of a phrase that ends in `*`, such as `a-b-c*`. Each word takes memory.
const MAX_PREFIX_PHRASE_WORDS: usize = 16;

/// A search: a row must match one of the alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedSearch {
    /// The items that each alternative demands or excludes.
    pub alternatives: Vec<Vec<Item>>,
}

/// A word, or words side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The words, at least one.
    pub words: Vec<Word>,
    /// The whole item in the form in which handles and symbols are compared; only for a plain word.
    pub exact: Option<String>,
    /// True when a match must not contain the item.
    pub excluded: bool,
    /// True when the last word is a prefix.
    pub prefix: bool,
}

/// The rule that a malformed search breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

enum Piece<'a> {
    Or,
    Item { text: &'a str, quoted: bool, excluded: bool },
}

/// Splits the first piece off a text that does not start with white space.
fn split_piece(text: &str) -> Result<(Piece<'_>, &str), Malformed> {
    let bare = text.trim_start_matches('-');
    let excluded = bare.len() < text.len() && !bare.starts_with(char::is_whitespace);
    if let Some(quoted) = bare.strip_prefix('"') {
        let (text, rest) = quoted.split_once('"').ok_or(Malformed("has a quotation mark without its pair"))?;
        return Ok((Piece::Item { text, quoted: true, excluded }, rest));
    }
    let end = bare.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(bare.len());
    let (word, rest) = bare.split_at(end);
    if word == "OR" && !excluded {
        return Ok((Piece::Or, rest));
    }
    Ok((Piece::Item { text: word, quoted: false, excluded }, rest))
}

/// Parses a search. A piece without a word, such as a lone `!`, is skipped.
///
/// # Errors
/// The rule that the text breaks.
pub fn parse(text: &str) -> Result<ParsedSearch, Malformed> {
    // Phones write curly quotation marks.
    let text = text.replace(['“', '”', '„'], "\"");
    let mut rest = text.trim_start();
    let (mut alternatives, mut items) = (Vec::new(), Vec::new());
    let (mut pieces, mut prefixes) = (0, 0);
    while !rest.is_empty() {
        let (found, after) = split_piece(rest)?;
        rest = after.trim_start();
        match found {
            Piece::Or if pieces == 0 || rest.is_empty() => return Err(Malformed("has an OR without both its sides")),
            Piece::Or => {
                alternatives.push(std::mem::take(&mut items));
                pieces = 0;
            }
            Piece::Item { text, quoted, excluded } => {
                pieces += 1;
                let prefix = !quoted && text.ends_with('*');
                let words = words(text);
                if words.is_empty() {
                    continue;
                }
                if prefix && words.len() > MAX_PREFIX_PHRASE_WORDS {
                    return Err(Malformed("must have at most 16 words in a phrase that ends in *"));
                }
                prefixes += usize::from(prefix);
                let exact = (!quoted && !prefix && !excluded).then(|| exact(text));
                items.push(Item { words, exact, excluded, prefix });
            }
        }
    }
    alternatives.push(items);
    alternatives.retain(|items| !items.is_empty());
    if alternatives.is_empty() {
        return Err(Malformed("must hold a word to look for"));
    }
    if alternatives.iter().any(|items| items.iter().all(|item| item.excluded)) {
        return Err(Malformed("must hold a word to look for beside those it excludes"));
    }
    if prefixes > MAX_PREFIXES {
        return Err(Malformed("must have at most 8 words that end in *"));
    }
    Ok(ParsedSearch { alternatives })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    thesis_fuzz::fuzz_tests!(searches);

    /// A search that is read keeps its limits, and has words that it demands.
    fn searches(input: &[u8]) {
        let Ok(parsed) = parse(&String::from_utf8_lossy(input)) else { return };
        assert!(!parsed.alternatives.is_empty());
        for items in &parsed.alternatives {
            assert!(items.iter().any(|item| !item.excluded));
            for item in items {
                assert!(!item.words.is_empty() && item.words.iter().all(|word| !word.text.is_empty()));
                assert!(!item.prefix || item.words.len() <= MAX_PREFIX_PHRASE_WORDS);
            }
        }
        assert!(parsed.alternatives.iter().flatten().filter(|item| item.prefix).count() <= MAX_PREFIXES);
    }

    fn shape(text: &str) -> Result<String, Malformed> {
        let parsed = parse(text)?;
        let item = |item: &Item| {
            let words: Vec<&str> = item.words.iter().map(|word| word.text.as_str()).collect();
            let sign = if item.excluded { "-" } else { "" };
            format!("{sign}{}{}", words.join("+"), if item.prefix { "*" } else { "" })
        };
        let each = |items: &Vec<Item>| items.iter().map(item).collect::<Vec<_>>().join(" ");
        Ok(parsed.alternatives.iter().map(each).collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn searches_are_understood() {
        for (text, expected) in [
            ("run fast", "run fast"),
            ("\"Run fast\" now", "run+fast now"),
            ("run -fast -\"the slow\"", "run -fast -the+slow"),
            ("a b OR c -d OR “e f”", "a b | c -d | e+f"),
            ("run* sbx_a*", "run* sbx+a*"),
            ("$RUN @Ana_1 比特币", "run ana+1 比+特+币"),
            ("or and NOT \"OR\" -OR", "or and not or -or"),
            ("BTC - the future !!! *", "btc the future"),
            ("a\"b c\"d", "a b+c d"),
            ("run OR !!!", "run"),
            ("foo*bar --x", "foo+bar -x"),
            ("text:foo [a TO z] (b) c^2 /d/ ~1", "text+foo a to z b c+2 d 1"),
        ] {
            assert_eq!(shape(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_searches_are_refused() {
        let (prefixes, phrase) = ("a* ".repeat(9), format!("{}a*", "a-".repeat(16)));
        for text in [
            "",
            "  ",
            "!!!",
            "\"",
            "5\"",
            "\"a",
            "OR",
            "a OR",
            "OR a",
            "a OR OR b",
            "-a",
            "a OR -b",
            "*",
            "-",
            "\u{fe0f}",
            "\u{fe0f}*",
            &prefixes,
            &phrase,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,80}", near in "[ab\"*\\- OR$@🚀比👍🏽\u{fe0f}]{0,40}") {
            for text in [text, near] {
                if let Ok(parsed) = parse(&text) {
                    for item in parsed.alternatives.iter().flatten() {
                        prop_assert!(!item.words.is_empty() && item.words.iter().all(|word| !word.text.is_empty()));
                    }
                }
            }
        }
    }
}

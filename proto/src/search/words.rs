//! Splits text into words, in the same way for the index, for searches and for filters.
//!
//! - Case, width and composition are ignored: text is normalized to NFKC, then case-folded.
//! - Letters and digits make words; everything else separates them, so `uniswap` is found in `uniswap.org`.
//! - Scripts that put no spaces between words (Chinese, Japanese, Korean, Thai …) give a word for each character, and a
//!   search in them is a phrase: any stretch of text is found, without a dictionary.
//! - Symbols and emoji are words, one for each that a reader sees (flags, families and skin tones included). An emoji
//!   with a skin tone is also found by its plain form.
//! - Other punctuation is dropped. `$RUN` and `@ana` are the words `run` and `ana`; a row with the sigil ranks higher.

use icu_normalizer::ComposingNormalizer;
use icu_properties::{
    CodePointMapData,
    props::{GeneralCategory, Script},
};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::reference;

/// Maximum number of bytes of a word. The rest is ignored.
const MAX_WORD_BYTES: usize = 1_000;

/// A word of a text; its place in the list is its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The normalized word.
    pub text: String,
    /// A second form of the word in the index, for example with its sigil.
    pub variant: Option<String>,
}

/// Normalizes text for comparison: without differences of case, width and composition.
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    reference::fold(&ComposingNormalizer::new_nfkc().normalize(text))
}

/// Normalizes a handle, symbol or address for comparison: as a whole, without its sigil.
#[must_use]
pub fn exact(text: &str) -> String {
    fold(text.strip_prefix(['@', '$']).unwrap_or(text))
}

enum Class {
    /// Continues a word.
    Letter,
    /// Is a word.
    Alone,
    /// Is a word, and may have a skin tone.
    Symbol,
    /// Separates words.
    Nothing,
}

fn class(cluster: &str) -> Class {
    let Some(first) = cluster.chars().next() else { return Class::Nothing };
    // These are keycaps and other emoji presentations.
    if cluster.contains(['\u{fe0f}', '\u{20e3}']) {
        return Class::Symbol;
    }
    if first.is_ascii() {
        return if first.is_ascii_alphanumeric() { Class::Letter } else { Class::Nothing };
    }
    let spaceless = |script| {
        [
            Script::Han,
            Script::Hiragana,
            Script::Katakana,
            Script::Hangul,
            Script::Bopomofo,
            Script::Yi,
            Script::Thai,
            Script::Lao,
            Script::Khmer,
            Script::Myanmar,
        ]
        .contains(&script)
    };
    match CodePointMapData::<GeneralCategory>::new().get(first) {
        GeneralCategory::MathSymbol
        | GeneralCategory::CurrencySymbol
        | GeneralCategory::ModifierSymbol
        | GeneralCategory::OtherSymbol => Class::Symbol,
        _ if !first.is_alphanumeric() => Class::Nothing,
        _ if spaceless(CodePointMapData::<Script>::new().get(first)) => Class::Alone,
        _ => Class::Letter,
    }
}

/// The words of a text.
#[must_use]
pub fn words(text: &str) -> Vec<Word> {
    let folded = fold(text);
    let mut words: Vec<Word> = Vec::new();
    // `open` is true while the last word may continue. `sigil` precedes the next word.
    let (mut open, mut sigil) = (false, None);
    for cluster in folded.graphemes(true) {
        let class = class(cluster);
        match (class, words.last_mut()) {
            (Class::Letter, Some(last)) if open => {
                for form in [Some(&mut last.text), last.variant.as_mut()].into_iter().flatten() {
                    if form.len() + cluster.len() <= MAX_WORD_BYTES {
                        form.push_str(cluster);
                    }
                }
                continue;
            }
            (Class::Letter, _) => {
                let variant = sigil.map(|sigil| format!("{sigil}{cluster}"));
                words.push(Word { text: cluster.to_owned(), variant });
                open = true;
            }
            (Class::Alone, _) => {
                words.push(Word { text: cluster.to_owned(), variant: None });
                open = false;
            }
            (Class::Symbol, _) => {
                let mut text: String = cluster.chars().filter(|c| !matches!(c, '\u{fe0e}' | '\u{fe0f}')).collect();
                // Cut first, because keys of texts need the plain form to be the text without its skin tones.
                cut(&mut text);
                let plain: String = text.chars().filter(|c| !is_skin_tone(*c)).collect();
                let variant = (plain != text && !plain.is_empty()).then_some(plain);
                // A variation selector alone, or after a space, shows nothing.
                if !text.trim().is_empty() {
                    words.push(Word { text, variant });
                }
                open = false;
            }
            (Class::Nothing, _) => open = false,
        }
        sigil = matches!(cluster, "@" | "$").then_some(cluster);
    }
    for word in &mut words {
        cut(&mut word.text);
        if let Some(variant) = &mut word.variant {
            cut(variant);
        }
    }
    words
}

pub(super) const fn is_skin_tone(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// A single cluster may hold any number of combining marks.
fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(MAX_WORD_BYTES));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn letters_and_digits_make_words() {
        assert_eq!(texts("Buy $RUN at @Ana_1's uniswap.org!"), ["buy", "run", "at", "ana", "1", "s", "uniswap", "org"]);
        assert_eq!(texts("Ünïcode ΣΊΣΥΦΟΣ Straße STRASSE ẞ"), ["ünïcode", "σίσυφοσ", "strasse", "strasse", "ss"]);
        assert_eq!(texts("e\u{301} é ＲＵＮ ﬁ"), ["é", "é", "run", "fi"]);
        assert_eq!(texts("हिन्दी мир مرحبا، עברית"), ["हिन्दी", "мир", "مرحبا", "עברית"]);
        assert!(texts(" .,;:!?-_*\"'()[]{}«»…。、 \n").is_empty());
    }

    #[test]
    fn scripts_without_spaces_give_characters() {
        assert_eq!(texts("比特币bull run到了"), ["比", "特", "币", "bull", "run", "到", "了"]);
        assert_eq!(texts("ビットコイン"), ["ビ", "ッ", "ト", "コ", "イ", "ン"]);
        assert_eq!(texts("비트 x"), ["비", "트", "x"]);
        assert_eq!(texts("ไทย").len(), 3);
    }

    #[test]
    fn each_emoji_is_a_word() {
        assert_eq!(texts("to the 🚀🚀moon❤️❤"), ["to", "the", "🚀", "🚀", "moon", "❤", "❤"]);
        assert_eq!(texts("👩‍🚀👨‍👩‍👧🇩🇪🇫🇷1️⃣"), ["👩‍🚀", "👨‍👩‍👧", "🇩🇪", "🇫🇷", "1\u{20e3}"]);
        let [toned] = &words("👍🏽")[..] else { panic!("one word") };
        assert_eq!((toned.text.as_str(), toned.variant.as_deref()), ("👍🏽", Some("👍")));
        assert_eq!(texts("5₿ > 100€"), ["5", "₿", "100", "€"]);
        assert_eq!(texts("\u{fe0f}a \u{fe0f}b\n\u{fe0f}"), ["a", "b"]);
    }

    #[test]
    fn sigils_are_a_variant() {
        let found = words("$RUN run $ run a@b");
        let variants: Vec<_> = found.iter().map(|word| word.variant.as_deref()).collect();
        assert_eq!(variants, [Some("$run"), None, None, None, Some("@b")]);
        assert_eq!((exact("@Ana_1"), exact("$run"), exact("0xAB")), ("ana_1".into(), "run".into(), "0xab".into()));
    }

    #[test]
    fn a_word_has_an_end() {
        let long = "a".repeat(5_000);
        assert_eq!(texts(&long), [&long[..1_000]]);
        let marked = format!("a{}", "\u{301}".repeat(5_000));
        assert!(words(&marked).iter().all(|word| word.text.len() <= 1_000));
        let [toned] = &words(&format!("👍{}\u{301}", "🏽".repeat(300)))[..] else { panic!("one word") };
        assert_eq!((toned.text.len(), toned.variant.as_deref()), (1_000, Some("👍")));
    }
}

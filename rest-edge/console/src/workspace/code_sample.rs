//! Code that pages show in several languages: `code_samples.html`.

/// A program or a command in one language.
pub(crate) struct CodeSample {
    /// The name of the language on its tab.
    pub(crate) name: &'static str,
    /// Suffix of the id of its tab.
    pub(crate) id: &'static str,
    pub(crate) text: String,
}

/// A text, quoted for a shell.
pub(crate) fn shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// True for a character that nobody sees, or that changes the order or the lines in which others are seen.
fn is_unseen(letter: char) -> bool {
    let is_format = matches!(letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}');
    is_format || letter.is_control()
}

/// A text as a string literal, which is the same in Python, JavaScript and Go, and in which everything is seen.
pub(crate) fn literal(text: &str) -> String {
    let mut literal = String::new();
    for letter in serde_json::Value::from(text).to_string().chars() {
        if is_unseen(letter) {
            literal.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            literal.push(letter);
        }
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_literal_is_unseen() {
        let shown = literal("a\u{202e}\u{2028}\u{200b}\u{85}\u{7f}\n\"\\é🚀");
        assert_eq!(shown, r#""a\u202e\u2028\u200b\u0085\u007f\n\"\\é🚀""#);
    }
}

//! Colours code while a page is built, by classes: the content security policy forbids inline styles, and a page then
//! needs no script for it.
//!
//! The guides have few languages, and readers need five kinds of tokens told apart. A grammar of each language, such as
//! `syntect` has, would add a megabyte to the program and make pages twice as large for finer distinctions.

use pulldown_cmark_escape::escape_html_body_text;

/// The class of a token. `site.css` has its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A keyword, or the key of a JSON object.
    Key,
    Text,
    Number,
    Comment,
    /// A function that is called, a variable of a shell, or an option of a command.
    Name,
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "k",
            Self::Text => "s",
            Self::Number => "n",
            Self::Comment => "c",
            Self::Name => "f",
        }
    }
}

struct Syntax {
    /// What begins a comment, which ends with its line.
    comments: &'static [&'static str],
    /// What begins and ends a text on one line.
    quotes: &'static [&'static str],
    /// What begins and ends a text of any number of lines.
    long_quotes: &'static [&'static str],
    keywords: &'static [&'static str],
    is_shell: bool,
    has_keys: bool,
}

const NONE: Syntax =
    Syntax { comments: &[], quotes: &["\""], long_quotes: &[], keywords: &[], is_shell: false, has_keys: false };
const SHELL: Syntax = Syntax {
    comments: &["#"],
    quotes: &[],
    long_quotes: &["\"", "'"],
    keywords: &[
        "case", "cat", "curl", "do", "done", "echo", "elif", "else", "esac", "exit", "export", "fi", "for", "grpcurl",
        "if", "in", "jq", "read", "set", "then", "while",
    ],
    is_shell: true,
    ..NONE
};
const PYTHON: Syntax = Syntax {
    comments: &["#"],
    quotes: &["\"", "'"],
    long_quotes: &["\"\"\"", "'''"],
    keywords: &[
        "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "elif", "else", "except",
        "finally", "for", "from", "if", "import", "in", "is", "lambda", "not", "or", "pass", "raise", "return", "try",
        "while", "with", "yield",
    ],
    ..NONE
};
const NODE: Syntax = Syntax {
    comments: &["//"],
    quotes: &["\"", "'"],
    long_quotes: &["`"],
    keywords: &[
        "async", "await", "break", "case", "catch", "class", "const", "continue", "default", "else", "export",
        "finally", "for", "from", "function", "if", "import", "in", "let", "new", "of", "return", "switch", "throw",
        "try", "typeof", "while",
    ],
    ..NONE
};
const GO: Syntax = Syntax {
    comments: &["//"],
    quotes: &["\"", "'"],
    long_quotes: &["`"],
    keywords: &[
        "break", "case", "chan", "const", "continue", "default", "defer", "else", "for", "func", "go", "if", "import",
        "map", "package", "range", "return", "select", "struct", "switch", "type", "var",
    ],
    ..NONE
};
const RUST: Syntax = Syntax {
    comments: &["//"],
    keywords: &[
        "as", "async", "await", "break", "const", "continue", "dyn", "else", "enum", "fn", "for", "if", "impl", "in",
        "let", "loop", "match", "mod", "move", "mut", "pub", "return", "struct", "trait", "type", "use", "while",
    ],
    ..NONE
};
const PROTO: Syntax = Syntax {
    comments: &["//"],
    keywords: &["enum", "import", "message", "oneof", "option", "optional", "package", "repeated", "rpc", "service"],
    ..NONE
};

/// Values that are written as words.
const LITERALS: &[&str] = &["true", "false", "null", "None", "True", "False", "nil", "undefined"];

fn syntax(language: &str) -> Option<Syntax> {
    Some(match language {
        "sh" => SHELL,
        "python" => PYTHON,
        "js" => NODE,
        "go" => GO,
        "rust" => RUST,
        "json" => Syntax { has_keys: true, ..NONE },
        "ini" => Syntax { comments: &["#", ";"], ..NONE },
        "proto" => PROTO,
        _ => return None,
    })
}

/// Code as HTML. A language that is not known has no colours.
pub(crate) fn highlight(language: &str, code: &str) -> String {
    let mut out = String::with_capacity(code.len() * 2);
    let Some(syntax) = syntax(language) else {
        put(&mut out, code);
        return out;
    };
    let (mut rest, mut plain, mut before) = (code, "", '\n');
    while let Some(first) = rest.chars().next() {
        let (length, class) = syntax.token(rest, first, before);
        let (token, tail) = rest.split_at(length.max(first.len_utf8()));
        if let Some(class) = class {
            put(&mut out, plain);
            out.push_str("<span class=\"");
            out.push_str(class.name());
            out.push_str("\">");
            put(&mut out, token);
            out.push_str("</span>");
            plain = "";
        } else {
            // Adjacent tokens without a class are written together.
            plain = &code[code.len() - rest.len() - plain.len()..code.len() - tail.len()];
        }
        before = token.chars().next_back().unwrap_or(first);
        rest = tail;
    }
    put(&mut out, plain);
    out
}

/// Escapes a text for the content of an element.
fn put(out: &mut String, text: &str) {
    escape_html_body_text(out, text).expect("memory takes every text");
}

/// Length in bytes of the letters at the beginning that `is_part` accepts.
fn length_while(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !is_part(letter)).unwrap_or(text.len())
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

impl Syntax {
    /// Length in bytes and class of the token at the beginning of `rest`, which follows the letter `before`.
    fn token(&self, rest: &str, first: char, before: char) -> (usize, Option<Class>) {
        if first.is_whitespace() {
            return (length_while(rest, char::is_whitespace), None);
        }
        // A hash inside a word, and the slashes of a URL, begin no comment.
        let may_begin = |mark: &str| if mark == "//" { before != ':' } else { before.is_whitespace() };
        if self.comments.iter().any(|mark| rest.starts_with(*mark) && may_begin(mark)) {
            return (length_while(rest, |letter| letter != '\n'), Some(Class::Comment));
        }
        if let Some(length) = self.text(rest) {
            let is_key = self.has_keys && rest[length..].trim_start().starts_with(':');
            return (length, Some(if is_key { Class::Key } else { Class::Text }));
        }
        if self.is_shell && first == '$' {
            let length = if rest.starts_with("${") {
                rest.find('}').map_or(rest.len(), |end| end + 1)
            } else {
                1 + length_while(&rest[1..], is_word)
            };
            return (length, (length > 1).then_some(Class::Name));
        }
        if self.is_shell && first == '-' && before.is_whitespace() {
            return (length_while(rest, |letter| is_word(letter) || letter == '-'), Some(Class::Name));
        }
        if first.is_ascii_digit() {
            return (length_while(rest, |letter| is_word(letter) || letter == '.'), Some(Class::Number));
        }
        if is_word(first) {
            return self.word(rest);
        }
        (first.len_utf8(), None)
    }

    fn word(&self, rest: &str) -> (usize, Option<Class>) {
        let length = length_while(rest, is_word);
        let (word, tail) = rest.split_at(length);
        let class = if self.keywords.contains(&word) {
            Some(Class::Key)
        } else if LITERALS.contains(&word) {
            Some(Class::Number)
        } else {
            tail.starts_with('(').then_some(Class::Name)
        };
        (length, class)
    }

    /// Length in bytes of the text in quotes at the beginning, if there is one.
    fn text(&self, rest: &str) -> Option<usize> {
        let quote = |quotes: &'static [&'static str]| quotes.iter().copied().find(|quote| rest.starts_with(*quote));
        let (quote, is_long) = match quote(self.long_quotes) {
            Some(quote) => (quote, true),
            None => (quote(self.quotes)?, false),
        };
        let mut from = quote.len();
        while let Some(letter) = rest[from..].chars().next() {
            if rest[from..].starts_with(quote) {
                return Some(from + quote.len());
            }
            if letter == '\n' && !is_long {
                return Some(from);
            }
            from += letter.len_utf8();
            // Shells read what is between apostrophes as it is.
            if letter == '\\' && !(self.is_shell && quote == "'") {
                from += rest[from..].chars().next().map_or(0, char::len_utf8);
            }
        }
        Some(rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The classes and their tokens.
    fn tokens(language: &str, code: &str) -> Vec<(String, String)> {
        let html = highlight(language, code);
        let spans = html.split("<span class=\"").skip(1);
        let token = |span: &str| {
            let (class, rest) = span.split_once("\">")?;
            Some((class.to_owned(), rest.split_once("</span>")?.0.to_owned()))
        };
        spans.filter_map(token).collect()
    }

    fn has(language: &str, code: &str, class: &str, token: &str) {
        let tokens = tokens(language, code);
        assert!(tokens.contains(&(class.to_owned(), token.to_owned())), "{token} in {tokens:?}");
    }

    #[test]
    fn each_language_has_its_tokens() {
        let shell = "curl -sS --fail \"$API_URL/v1/me\" # says\nexport X=${Y}; echo 'it\\' it#s\n";
        for (class, token) in
            [("k", "curl"), ("f", "-sS"), ("f", "--fail"), ("s", "\"$API_URL/v1/me\""), ("c", "# says")]
        {
            has("sh", shell, class, token);
        }
        has("sh", shell, "f", "${Y}");
        has("sh", shell, "s", "'it\\'");
        has("python", "x = await get(f'a', None)  # b", "k", "await");
        has("python", "x = await get(f'a', None)  # b", "f", "get");
        has("python", "\"\"\"a\n'b\"\"\"\nreturn 1.5", "n", "1.5");
        has("js", "const a = `x\n${y}`; // https://z", "s", "`x\n${y}`");
        has("js", "fetch(a); // https://z", "c", "// https://z");
        has("go", "func main() { a := \"b\\\"c\" }", "s", "\"b\\\"c\"");
        has("rust", "let a = get(\"b\").await?; // c", "k", "let");
        has("rust", "let a = get(\"b\").await?; // c", "s", "\"b\"");
        has("json", "{\"a\": [\"b\", -1, true]}", "k", "\"a\"");
        has("json", "{\"a\": [\"b\", -1, true]}", "s", "\"b\"");
        has("json", "{\"a\": [\"b\", -1, true]}", "n", "true");
    }

    #[test]
    fn nothing_is_lost() {
        let unescaped = |html: &str| {
            let parts = html.split('<').enumerate();
            let text: String =
                parts.map(|(at, part)| if at == 0 { part } else { part.split_once('>').unwrap().1 }).collect();
            text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        };
        for language in ["sh", "python", "js", "go", "rust", "json", "ini", "proto", "text"] {
            for code in ["", "\"", "'a", "$", "${", "- -", "a<b>&\"c\" # ü 'é\n// x", "\\", "\"\\", "`", "\"\"\"", "#"]
            {
                assert_eq!(unescaped(&highlight(language, code)), code, "{language}");
            }
        }
    }
}

//! Gives the words of a text to the index, each with its dataset's name.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use thesis_proto::search::words::{Word, words};

/// Separates a dataset's name from the text of its row in the index.
pub(super) const NAME_END: char = '\0';

/// Cuts `dataset NAME_END text` into its words, each as `dataset NAME_END word`; both forms of a word at its position.
#[derive(Clone, Default)]
pub(super) struct WordTokenizer;

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream {
        let (name, text) = text.split_at(text.find(NAME_END).map_or(0, |end| end + NAME_END.len_utf8()));
        let forms = |(position, word): (usize, Word)| {
            [Some(word.text), word.variant].into_iter().flatten().map(move |form| (position, form))
        };
        let words: Vec<_> = words(text).into_iter().enumerate().flat_map(forms).collect();
        WordStream { name: name.to_owned(), words: words.into_iter(), token: Token::default() }
    }
}

pub(super) struct WordStream {
    name: String,
    words: std::vec::IntoIter<(usize, String)>,
    token: Token,
}

impl TokenStream for WordStream {
    fn advance(&mut self) -> bool {
        let Some((position, word)) = self.words.next() else { return false };
        self.token.position = position;
        self.token.text.clear();
        self.token.text.push_str(&self.name);
        self.token.text.push_str(&word);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

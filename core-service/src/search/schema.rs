//! The indexed fields of theses, profiles and tokens. The index stores no rows: hits are read from the store.
//!
//! Every indexed term begins with its dataset's name, and only [`Terms`] of one dataset make terms. So no query can
//! reach a row of another dataset, and the frequency of a word is that within its dataset.

use tantivy::{
    TantivyDocument, Term,
    schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
};
use thesis_proto::search::words::exact;

use super::{id, words::NAME_END};
use crate::domain::{
    dataset::Dataset,
    row::{Profile, Thesis, Token},
    window::DAY_MS,
};

/// Raise this version whenever the same row would be indexed differently: old indexes are then rebuilt.
pub(super) const VERSION: u32 = 5;

pub(super) const WORDS: &str = "words";
pub(super) const LIKES: &str = "likes";
pub(super) const CREATED_AT: &str = "created_at";
pub(super) const ID_HIGH: &str = "id_high";
pub(super) const ID_LOW: &str = "id_low";

/// The day of a time, counted from 1970.
pub(super) const fn day_of(millis: i64) -> i64 {
    millis.div_euclid(DAY_MS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Thesis,
    Profile,
    Token,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Thesis, Self::Profile, Self::Token];

    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Thesis => "th_",
            Self::Profile => "fp_",
            Self::Token => "tk_",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) id: Field,
    /// The kind, as the prefix of its ids.
    pub(super) kind: Field,
    /// Words of a thesis.
    thesis: Field,
    /// Words of a profile: handle, name, bio.
    profile: Field,
    /// Words of a token: symbol, name, address.
    token: Field,
    /// Handle, or symbol and address, whole.
    pub(super) exact: Field,
    /// Handle or symbol, whole.
    pub(super) name: Field,
    pub(super) author: Field,
    /// Token of a thesis.
    pub(super) about: Field,
    /// Chain of a thesis or token.
    pub(super) chain: Field,
    /// Day on which a thesis was created.
    day: Field,
    /// A dataset's name with the position in its log.
    pub(super) mark: Field,
    likes: Field,
    created_at: Field,
    id_high: Field,
    id_low: Field,
}

impl Fields {
    pub(super) fn new() -> (Self, Schema) {
        let mut schema = Schema::builder();
        let indexing = |tokenizer| TextFieldIndexing::default().set_tokenizer(tokenizer);
        let plain = indexing("raw").set_index_option(IndexRecordOption::Basic).set_fieldnorms(false);
        let plain = TextOptions::default().set_indexing_options(plain);
        let text = indexing(WORDS).set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let text = TextOptions::default().set_indexing_options(text);
        let fields = Self {
            id: schema.add_text_field("id", plain.clone()),
            kind: schema.add_text_field("kind", plain.clone()),
            thesis: schema.add_text_field("thesis", text.clone()),
            profile: schema.add_text_field("profile", text.clone()),
            token: schema.add_text_field("token", text),
            exact: schema.add_text_field("exact", plain.clone()),
            name: schema.add_text_field("name", plain.clone()),
            author: schema.add_text_field("author", plain.clone()),
            about: schema.add_text_field("about", plain.clone()),
            chain: schema.add_text_field("chain", plain.clone()),
            day: schema.add_text_field("day", plain.clone()),
            mark: schema.add_text_field("mark", plain),
            likes: schema.add_i64_field(LIKES, FAST),
            created_at: schema.add_i64_field(CREATED_AT, FAST),
            id_high: schema.add_u64_field(ID_HIGH, FAST),
            id_low: schema.add_u64_field(ID_LOW, FAST),
        };
        (fields, schema.build())
    }

    pub(super) fn words_of(&self, kind: Kind) -> Field {
        match kind {
            Kind::Thesis => self.thesis,
            Kind::Profile => self.profile,
            Kind::Token => self.token,
        }
    }
}

/// Makes the terms and documents of one dataset.
pub(super) struct Terms {
    pub(super) fields: Fields,
    prefix: String,
}

impl Terms {
    pub(super) fn new(fields: Fields, dataset: &Dataset) -> Self {
        Self { fields, prefix: format!("{dataset}{NAME_END}") }
    }

    pub(super) fn value(&self, value: &str) -> String {
        format!("{}{value}", self.prefix)
    }

    pub(super) fn term(&self, field: Field, value: &str) -> Term {
        Term::from_field_text(field, &self.value(value))
    }

    pub(super) fn day(&self, day: i64) -> Term {
        self.term(self.fields.day, &day.to_string())
    }

    /// This dataset's term for the value of another dataset's term.
    pub(super) fn own(&self, term: &Term) -> Option<Term> {
        let (_, value) = std::str::from_utf8(term.serialized_value_bytes()).ok()?.split_once(NAME_END)?;
        Some(self.term(term.field(), value))
    }

    fn start(&self, kind: Kind, id: &str, created_at: i64) -> Option<TantivyDocument> {
        let (high, low) = id::halves(id.strip_prefix(kind.prefix())?)?;
        let mut document = TantivyDocument::default();
        document.add_text(self.fields.id, self.value(id));
        document.add_text(self.fields.kind, self.value(kind.prefix()));
        document.add_i64(self.fields.created_at, created_at);
        document.add_u64(self.fields.id_high, high);
        document.add_u64(self.fields.id_low, low);
        Some(document)
    }

    fn add_exact(&self, document: &mut TantivyDocument, text: &str) {
        document.add_text(self.fields.exact, self.value(&exact(text)));
    }

    fn add_name(&self, document: &mut TantivyDocument, text: &str) {
        document.add_text(self.fields.name, self.value(&exact(text)));
        self.add_exact(document, text);
    }

    /// The document of a thesis. None when its id is not an id of this service.
    pub(super) fn thesis(&self, thesis: &Thesis) -> Option<TantivyDocument> {
        let mut document = self.start(Kind::Thesis, &thesis.id, thesis.created_at)?;
        document.add_text(self.fields.thesis, self.value(&thesis.text));
        document.add_text(self.fields.author, self.value(&thesis.profile_id));
        document.add_text(self.fields.about, self.value(&thesis.token_id));
        document.add_text(self.fields.chain, self.value(&thesis.chain));
        document.add_text(self.fields.day, self.value(&day_of(thesis.created_at).to_string()));
        if let Some(likes) = thesis.likes {
            document.add_i64(self.fields.likes, likes);
        }
        Some(document)
    }

    pub(super) fn profile(&self, profile: &Profile) -> Option<TantivyDocument> {
        let mut document = self.start(Kind::Profile, &profile.id, profile.first_seen_at)?;
        for text in [Some(&profile.handle), profile.display_name.as_ref(), profile.bio.as_ref()].into_iter().flatten() {
            document.add_text(self.fields.profile, self.value(text));
        }
        self.add_name(&mut document, &profile.handle);
        Some(document)
    }

    pub(super) fn token(&self, token: &Token) -> Option<TantivyDocument> {
        let mut document = self.start(Kind::Token, &token.id, token.first_seen_at)?;
        for text in [Some(&token.symbol), token.name.as_ref(), Some(&token.address)].into_iter().flatten() {
            document.add_text(self.fields.token, self.value(text));
        }
        self.add_name(&mut document, &token.symbol);
        self.add_exact(&mut document, &token.address);
        document.add_text(self.fields.chain, self.value(&token.chain));
        Some(document)
    }
}

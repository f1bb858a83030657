//! The index's positions in the logs. Each is a document of its own, so a commit writes the positions that it moves,
//! however many datasets the index holds, and positions and rows always agree.

use std::{collections::BTreeMap, str};

use tantivy::{
    DocSet as _, IndexWriter, Searcher, TERMINATED, TantivyDocument, TantivyError, Term, schema::IndexRecordOption,
};

use super::{LogMark, Marks, SearchError, schema::Fields, words::NAME_END};

/// Marks that the next commit writes; none for a dataset that the index forgets.
pub(super) type ChangedMarks = BTreeMap<String, Option<LogMark>>;

/// Adds the documents of changed marks in place of the earlier ones. A dataset's name is the id of its mark: ids of
/// rows are longer.
pub(super) fn write_marks(writer: &IndexWriter, fields: &Fields, changed: &ChangedMarks) -> tantivy::Result<()> {
    for (name, mark) in changed {
        writer.delete_term(Term::from_field_text(fields.id, name));
        if let Some(LogMark { seq, id }) = mark {
            let mut document = TantivyDocument::default();
            document.add_text(fields.id, name);
            document.add_text(fields.mark, format!("{name}{NAME_END}{seq}{NAME_END}{id}"));
            writer.add_document(document)?;
        }
    }
    Ok(())
}

/// Reads the marks of the last commit.
pub(super) fn read_marks(searcher: &Searcher, fields: &Fields) -> Result<Marks, SearchError> {
    let mut marks = Marks::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(fields.mark)?;
        let mut terms = index.terms().stream().map_err(TantivyError::from)?;
        while terms.advance() {
            let postings = index.read_postings_from_terminfo(terms.value(), IndexRecordOption::Basic);
            let mut postings = postings.map_err(TantivyError::from)?;
            let mut document = postings.doc();
            while document != TERMINATED && segment.is_deleted(document) {
                document = postings.advance();
            }
            if document != TERMINATED {
                let (name, mark) = decode(terms.key()).ok_or(SearchError::Damaged)?;
                marks.insert(name, mark);
            }
        }
    }
    Ok(marks)
}

fn decode(term: &[u8]) -> Option<(String, LogMark)> {
    let (name, mark) = str::from_utf8(term).ok()?.split_once(NAME_END)?;
    let (seq, id) = mark.split_once(NAME_END)?;
    Some((name.to_owned(), LogMark { seq: seq.parse().ok()?, id: id.to_owned() }))
}

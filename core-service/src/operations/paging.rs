//! Pages of a list that is ordered by a time and an id, newest first.

use crate::{
    domain::list_cursor::{CursorSigner, TimePosition},
    error::{Error, Result},
    service::Core,
};

/// A list, and the place where a request continues it.
pub struct Paging {
    signer: CursorSigner,
    list: [u8; 32],
    /// Time and id of the row before the page; none before the first page.
    pub after: Option<(i64, String)>,
}

impl Paging {
    /// Fails with `INVALID_CURSOR` if the cursor is not of the list of this name.
    pub fn new(core: &Core, list: [u8; 32], cursor: Option<&str>) -> Result<Self> {
        Self::signed_by(core.shared.keys.cursor_signer(), list, cursor)
    }

    fn signed_by(signer: CursorSigner, list: [u8; 32], cursor: Option<&str>) -> Result<Self> {
        let read = |cursor| signer.read::<TimePosition>(&list, cursor).ok_or_else(Error::invalid_cursor);
        let after = cursor.map(read).transpose()?.map(|position| (position.created_at, position.id));
        Ok(Self { signer, list, after })
    }

    /// The cursor of the page after a row.
    pub fn cursor_after(&self, created_at: i64, id: String) -> String {
        self.signer.sign(&self.list, &TimePosition { created_at, id, ..TimePosition::default() })
    }

    /// Cuts rows in the order of the list to a page. Returns the cursor of the next page if there were more.
    pub fn cut<R>(&self, rows: &mut Vec<R>, limit: usize, key: impl Fn(&R) -> (i64, &str)) -> Option<String> {
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let (created_at, id) = rows.last().filter(|_| has_more).map(key)?;
        Some(self.cursor_after(created_at, id.to_owned()))
    }

    /// Selects the page among all rows of the list, which are in any order. Returns it with the cursor of the next one.
    pub fn select<R>(
        &self,
        rows: impl Iterator<Item = R>,
        limit: usize,
        key: impl Fn(&R) -> (i64, &str),
    ) -> (Vec<R>, Option<String>) {
        let is_after = |row: &R| self.after.as_ref().is_none_or(|(at, id)| key(row) < (*at, id.as_str()));
        let mut rows: Vec<R> = rows.filter(is_after).collect();
        rows.sort_unstable_by(|a, b| key(b).cmp(&key(a)));
        let next_cursor = self.cut(&mut rows, limit, key);
        (rows, next_cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::list_cursor::list_name;

    const ROWS: [(i64, &str); 5] = [(2, "c"), (1, "a"), (3, "e"), (2, "b"), (2, "d")];

    fn page(cursor: Option<&str>, limit: usize) -> (Vec<&'static str>, Option<String>) {
        let paging = Paging::signed_by(CursorSigner::new([7; 32]), list_name(&["rows"]), cursor).unwrap();
        let (rows, next_cursor) = paging.select(ROWS.into_iter(), limit, |row: &(i64, &'static str)| (row.0, row.1));
        (rows.into_iter().map(|(_, id)| id).collect(), next_cursor)
    }

    #[test]
    fn pages_are_the_list_from_its_newest_row() {
        let (first, cursor) = page(None, 2);
        assert_eq!(first, ["e", "d"]);
        let (second, cursor) = page(cursor.as_deref(), 2);
        assert_eq!(second, ["c", "b"]);
        assert_eq!(page(cursor.as_deref(), 1), (vec!["a"], None), "no page follows a full last one");
        assert_eq!(page(None, 5), (vec!["e", "d", "c", "b", "a"], None));
    }

    #[test]
    fn a_cursor_of_another_list_is_refused() {
        let cursor = page(None, 2).1;
        let other = Paging::signed_by(CursorSigner::new([7; 32]), list_name(&["others"]), cursor.as_deref());
        assert!(other.is_err());
    }
}

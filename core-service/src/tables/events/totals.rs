//! The totals of a token at a position of a log.

use super::{EventIndex, EventScope, SeqRange};
use crate::{
    domain::entry::{Kind, Totals},
    store::StoreResult,
    tables::log::decode,
};

/// Number of entries in one read. It almost always includes an entry with totals, because at most two derived events
/// follow each creation.
const ENTRIES: usize = 3;

impl EventIndex {
    /// Reads a token's totals after the entry at `position` of a log. The projection of the log has reached
    /// `projected`, which must not be less than `position`, and this process knows each erasure up to there.
    pub async fn totals_at(&self, dataset: &str, token: &str, position: u64, projected: u64) -> StoreResult<Totals> {
        let scopes = [EventScope::Token(token.to_owned()), EventScope::Deletions(token.to_owned())];
        let mut between = SeqRange { after: 0, before: position + 1, projected };
        loop {
            let newest = self.positions(dataset, &scopes, between, true, ENTRIES).await?;
            for (seq, body) in self.log.get_listed(dataset, &newest).await? {
                match decode(seq, body)?.kind {
                    Some(Kind::ThesisCreated(created)) => return Ok(created.totals),
                    Some(Kind::ThesisDeleted(deleted)) => return Ok(deleted.totals),
                    _ => between.before = seq,
                }
            }
            if newest.len() < ENTRIES {
                return Ok(Totals::default());
            }
        }
    }
}

//! Reads a token with its counts. Each count is the number that a reader gets by listing: theses of all datasets in the
//! view, and each author once.

use thesis_proto::v1;

use crate::{
    access::gate::Call,
    convert,
    domain::{
        dataset::{Dataset, View},
        row::Token,
        window::DAY_MS,
    },
    error::Result,
    service::Core,
    shared::Shared,
    store::StoreResult,
    tables::theses::RowReader,
};

/// Counts all theses of a token in a view, and their authors.
async fn totals(shared: &Shared, view: &View, token: &str) -> StoreResult<(i64, i64)> {
    let (mut theses, mut authors) = (0, 0);
    for dataset in view.datasets() {
        for totals in shared.theses.totals(&dataset.to_string(), &[token]).await? {
            theses += totals.theses;
            authors += totals.authors;
        }
    }
    if let [first, second] = view.datasets() {
        // An author in both datasets is one of the sandbox, where a token has few authors.
        let shared_authors = shared.theses.authors(&first.to_string(), token).await?;
        let pairs: Vec<_> = shared_authors.iter().map(|author| (token, author.as_str())).collect();
        let in_second = shared.theses.author_counts(&second.to_string(), &pairs).await?;
        let twice = in_second.iter().filter(|count| **count > 0).count();
        authors -= i64::try_from(twice).unwrap_or_default();
    }
    Ok((theses, authors))
}

/// Reads a token with its counts.
pub(super) async fn counted(
    core: &Core,
    call: &Call,
    reader: &RowReader<'_>,
    dataset: &Dataset,
    token: &Token,
) -> Result<v1::Token> {
    let (view, now_ms) = (&call.caller.view, call.now_ms);
    let (theses, authors) = totals(&core.shared, view, &token.id).await?;
    let day = core.datasets.counts(reader, view, &token.id, now_ms, DAY_MS).await?;
    let last = reader.latest(view, &token.id, now_ms, &day).await?.map(|(at, _)| at);
    Ok(convert::row::token(dataset, token, theses, authors, day.last_24h, last))
}

//! The figures of a token in a view, now or as of an earlier time. Each count equals the length of the list that a
//! reader gets: theses of all datasets in the view, and each author once. As of a time it equals the length of the list
//! at that time.

use std::sync::Arc;

use futures::future::{try_join, try_join_all};

use thesis_proto::v1;

use crate::{
    access::gate::Call,
    convert,
    domain::{
        dataset::{Dataset, View},
        derivation::{Counts, PastTheses},
        entry::Totals,
        row::Token,
        window::DAY_MS,
    },
    error::Result,
    service::Core,
    store::{StoreError, StoreResult},
    tables::theses::RowReader,
};

/// The figures of a token at one moment.
pub(super) struct TokenFigures<'a> {
    core: &'a Core,
    reader: &'a RowReader<'a>,
    token: &'a Token,
    view: &'a View,
    /// The time of the figures, in unix milliseconds.
    pub at: i64,
    /// Set for figures as of an earlier time: the projected position of each dataset. It covers all entries up to that
    /// time.
    projected: Option<Vec<u64>>,
}

impl<'a> TokenFigures<'a> {
    /// Prepares the figures of now, or as of a time. For those as of a time, it closes the time first.
    pub async fn new(
        core: &'a Core,
        call: &'a Call,
        reader: &'a RowReader<'a>,
        token: &'a Token,
        as_of: Option<i64>,
    ) -> Result<Self> {
        let view = &call.caller.view;
        let projected = match as_of {
            Some(at) => {
                let closing = view.datasets().iter().map(|dataset| core.datasets.close_time(dataset, at));
                Some(try_join_all(closing).await?)
            }
            None => None,
        };
        Ok(Self { core, reader, token, view, at: as_of.unwrap_or(call.now_ms), projected })
    }

    /// Reads the token with its counts.
    pub async fn read_token(&self, dataset: &Dataset) -> Result<v1::Token> {
        let ((theses, authors), day) = try_join(self.totals(), self.counts(DAY_MS)).await?;
        let last_activity = self.last_activity(&day, Some(theses)).await?;
        Ok(convert::row::token(dataset, self.token, theses, authors, day.last_24h, last_activity))
    }

    /// Counts the theses that are at most `span` milliseconds old, up to a day.
    pub async fn counts(&self, span: i64) -> Result<Counts> {
        match self.past_theses(span).await? {
            Some(past) => Ok(past.count(self.at)),
            None => self.core.datasets.counts(self.reader, self.view, &self.token.id, self.at, span).await,
        }
    }

    /// Counts the theses of a day. As of an earlier time, it returns these theses too.
    pub async fn day(&self) -> Result<(Counts, Option<Arc<PastTheses>>)> {
        match self.past_theses(DAY_MS).await? {
            Some(past) => Ok((past.count(self.at), Some(past))),
            None => Ok((self.counts(DAY_MS).await?, None)),
        }
    }

    /// Reads the theses of an earlier time that are at most `span` milliseconds old; none for the present figures.
    async fn past_theses(&self, span: i64) -> StoreResult<Option<Arc<PastTheses>>> {
        let Some(projected) = &self.projected else { return Ok(None) };
        let theses = &self.core.shared.theses;
        theses.past_theses(self.view, projected, &self.token.id, self.at, span).await.map(Some)
    }

    /// Finds the time of the newest thesis, at any age. `day` is the result of [`Self::counts`] for a day, and `theses`
    /// the number of all theses, if the caller knows it.
    pub async fn last_activity(&self, day: &Counts, theses: Option<i64>) -> Result<Option<i64>> {
        let (token, at) = (&self.token.id, self.at);
        let Some(projected) = &self.projected else {
            let latest = self.reader.latest(self.view, token, at, day).await?;
            return Ok(latest.map(|(created_at, _)| created_at));
        };
        if let Some((created_at, _)) = day.newest() {
            return Ok(Some(created_at));
        }
        // A token may have many theses that were all recorded later. Do not search among them.
        let theses = match theses {
            Some(theses) => theses,
            None => self.earlier_totals(projected).await?.iter().map(|of| of.theses).sum(),
        };
        if theses == 0 {
            return Ok(None);
        }
        Ok(self.core.shared.theses.latest_at(self.view, token, at).await?)
    }

    /// Counts all theses, and their authors.
    async fn totals(&self) -> Result<(i64, i64)> {
        let totals = match &self.projected {
            Some(projected) => self.earlier_totals(projected).await?,
            None => self.present_totals().await?,
        };
        let theses = totals.iter().map(|of| of.theses).sum();
        let mut authors: i64 = totals.iter().map(|of| of.authors).sum();
        if let [first, second] = self.view.datasets()
            && totals.iter().all(|of| of.authors > 0)
        {
            authors -= self.authors_in_both(first, second).await?;
        }
        Ok((theses, authors))
    }

    async fn present_totals(&self) -> StoreResult<Vec<Totals>> {
        let (theses, token) = (&self.core.shared.theses, self.token.id.as_str());
        let reads =
            self.view.datasets().iter().map(|dataset| async move { theses.totals(dataset.name(), &[token]).await });
        Ok(try_join_all(reads).await?.concat())
    }

    async fn earlier_totals(&self, projected: &[u64]) -> StoreResult<Vec<Totals>> {
        let (shared, token, at) = (&self.core.shared, self.token.id.as_str(), self.at);
        let reads = self.view.datasets().iter().zip(projected).map(|(dataset, projected)| async move {
            let position = shared.log.last_at(dataset.name(), *projected, at).await?;
            shared.events.totals_at(dataset.name(), token, position, *projected).await
        });
        try_join_all(reads).await
    }

    /// Counts the authors in both datasets. It starts from the authors of the first one, the sandbox, where a token has
    /// few.
    async fn authors_in_both(&self, first: &Dataset, second: &Dataset) -> StoreResult<i64> {
        let (theses, token, at) = (&self.core.shared.theses, self.token.id.as_str(), self.at);
        let authors = theses.authors(first.name(), token).await?;
        let in_both: Vec<bool> = if self.projected.is_some() {
            let reads = authors.iter().map(|(author, _)| async move {
                let was_in_second = theses.had_author(second, token, author, at).await?;
                Ok::<_, StoreError>(was_in_second && theses.had_author(first, token, author, at).await?)
            });
            try_join_all(reads).await?
        } else {
            let present: Vec<_> = authors.iter().filter(|(_, count)| *count > 0).collect();
            let pairs: Vec<_> = present.iter().map(|(author, _)| (token, author.as_str())).collect();
            let counts = theses.author_counts(second.name(), &pairs).await?;
            counts.into_iter().map(|count| count > 0).collect()
        };
        Ok(i64::try_from(in_both.into_iter().filter(|is_in_both| *is_in_both).count()).unwrap_or_default())
    }
}

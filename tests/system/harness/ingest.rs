//! Observations of the upstream, as its connector would bring them.

use std::sync::atomic::{AtomicU64, Ordering};

use thesis_proto::{
    time::from_millis,
    v1::{self, ingest_service_client::IngestServiceClient, observation::Observed},
};
use tonic::Status;

use super::{Service, now_ms};

/// Theses that one request brings of a long list.
const MANY: usize = 50;

/// A profile as seen upstream.
pub(crate) fn author(upstream_user_id: &str, handle: &str) -> v1::ProfileObservation {
    v1::ProfileObservation {
        upstream_user_id: upstream_user_id.to_owned(),
        handle: handle.to_owned(),
        ..v1::ProfileObservation::default()
    }
}

/// A token as seen upstream.
pub(crate) fn token(chain: &str, address: &str, symbol: &str) -> v1::TokenObservation {
    v1::TokenObservation {
        chain: chain.to_owned(),
        address: address.to_owned(),
        symbol: symbol.to_owned(),
        ..v1::TokenObservation::default()
    }
}

/// A thesis as seen upstream.
pub(crate) fn thesis(
    upstream_id: &str,
    author: &v1::ProfileObservation,
    token: &v1::TokenObservation,
    text: &str,
    created_at: i64,
) -> v1::ThesisObservation {
    v1::ThesisObservation {
        upstream_id: upstream_id.to_owned(),
        profile: Some(author.clone()),
        token: Some(token.clone()),
        text: text.to_owned(),
        created_at: Some(from_millis(created_at)),
        ..v1::ThesisObservation::default()
    }
}

/// New figures of a thesis.
pub(crate) fn engagement(upstream_id: &str, likes: i64, replies: i64) -> Observed {
    let (upstream_id, likes, replies) = (upstream_id.to_owned(), Some(likes), Some(replies));
    Observed::Engagement(v1::EngagementObservation { upstream_id, likes, replies })
}

/// A thesis that was deleted.
pub(crate) fn deletion(upstream_id: &str) -> Observed {
    Observed::Deletion(v1::DeletionObservation { upstream_id: upstream_id.to_owned() })
}

/// An observation at a time, from an upstream without revisions.
pub(crate) fn seen_at(observed_at: i64, observed: Observed) -> v1::Observation {
    v1::Observation { observed_at: Some(from_millis(observed_at)), revision: None, observed: Some(observed) }
}

/// An observation of just now, with a revision.
pub(crate) fn revision(revision: i64, observed: Observed) -> v1::Observation {
    v1::Observation { revision: Some(revision), ..seen_at(now_ms(), observed) }
}

impl Service {
    /// Brings observations; gives the result of each.
    pub(crate) async fn ingest(&self, dataset: &str, observations: Vec<v1::Observation>) -> Vec<v1::IngestResult> {
        self.try_ingest(dataset, observations).await.unwrap()
    }

    /// Brings observations that may be refused.
    pub(crate) async fn try_ingest(
        &self,
        dataset: &str,
        observations: Vec<v1::Observation>,
    ) -> Result<Vec<v1::IngestResult>, Status> {
        let mut client = IngestServiceClient::with_interceptor(self.channel(), super::service::credential);
        let request = v1::IngestRequest { dataset: dataset.to_owned(), observations };
        let answer = client.ingest(request).await?;
        Ok(answer.into_inner().results)
    }

    /// Brings one observation that is news; gives the id of the row that it concerns.
    pub(crate) async fn learn(&self, dataset: &str, observation: v1::Observation) -> String {
        let mut results = self.ingest(dataset, vec![observation]).await;
        let result = results.pop().unwrap();
        assert!(result.applied && results.is_empty(), "{result:?}");
        result.id
    }

    /// Brings new theses of one author on a token in their order, many by each request.
    pub(crate) async fn post_all(&self, dataset: &str, on: &v1::TokenObservation, texts: &[String]) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let by = author("u-talkative", "talkative");
        for texts in texts.chunks(MANY) {
            let theses = texts.iter().map(|text| {
                let id = format!("talk-{}", NEXT.fetch_add(1, Ordering::Relaxed));
                seen_at(now_ms(), Observed::Thesis(thesis(&id, &by, on, text, now_ms())))
            });
            let results = self.ingest(dataset, theses.collect()).await;
            assert!(results.len() == texts.len() && results.iter().all(|result| result.applied), "{results:?}");
        }
    }

    /// Brings a thesis that is new; gives its id.
    pub(crate) async fn post(&self, dataset: &str, thesis: v1::ThesisObservation) -> String {
        self.learn(dataset, seen_at(now_ms(), Observed::Thesis(thesis))).await
    }
}

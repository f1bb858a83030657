//! A served description of the API. Its examples have current times, so the edge builds it once a day.

use std::sync::Arc;

use http::{HeaderMap, Response};
use parking_lot::Mutex;
use serde_json::Value;
use thesis_net::clock::SharedClock;

use crate::{
    answer::{Body, JSON},
    document::Document,
};

/// The times of examples change once in this interval.
pub(crate) const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Builds the description for a public URL and the day of a time in Unix milliseconds.
type Build = fn(&str, i64) -> Value;

/// The description of the current day. All edges with the same public URL build the same text and thus the same tag.
pub(crate) struct Description {
    build: Build,
    public_url: String,
    clock: SharedClock,
    /// The day, and the document of that day.
    kept: Mutex<(i64, Arc<Document>)>,
}

impl Description {
    pub(crate) fn new(build: Build, public_url: &str, clock: SharedClock) -> Self {
        let now_ms = clock.now_ms();
        let kept = Mutex::new((day_of(now_ms), document(&build(public_url, now_ms))));
        Self { build, public_url: public_url.to_owned(), clock, kept }
    }

    /// Responds with the client's preferred encoding and a tag.
    pub(crate) async fn answer(&self, request_headers: &HeaderMap) -> Response<Body> {
        let document = self.of_today();
        document.answer(request_headers).await
    }

    fn of_today(&self) -> Arc<Document> {
        let now_ms = self.clock.now_ms();
        let mut kept = self.kept.lock();
        if kept.0 != day_of(now_ms) {
            *kept = (day_of(now_ms), document(&(self.build)(&self.public_url, now_ms)));
        }
        Arc::clone(&kept.1)
    }
}

pub(crate) fn day_of(now_ms: i64) -> i64 {
    now_ms.div_euclid(DAY_MS)
}

fn document(description: &Value) -> Arc<Document> {
    Arc::new(Document::new(JSON, description.to_string().into()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use http::header::ETAG;
    use thesis_net::clock::Clock;

    use super::*;
    use crate::openapi::openapi;

    struct Set(AtomicI64);

    impl Clock for Set {
        fn now_ms(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn it_changes_with_the_day_alone() {
        let clock = Arc::new(Set(AtomicI64::new(20_000 * DAY_MS)));
        let description = Description::new(openapi, "http://edge.test", clock.clone());
        let tag = async || description.answer(&HeaderMap::new()).await.headers()[ETAG].clone();
        let first = tag().await;
        clock.0.fetch_add(DAY_MS - 1, Ordering::Relaxed);
        assert_eq!(tag().await, first);
        clock.0.fetch_add(1, Ordering::Relaxed);
        assert_ne!(tag().await, first);
    }
}

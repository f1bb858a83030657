//! A response that ends when its client stops waiting.

use axum::body::Body;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::{
    select,
    time::{Instant, sleep_until},
};
use tonic::Status;

/// A body that ends with the status of `late` at `deadline` unless it has ended before.
pub(super) fn with_deadline(body: Body, deadline: Instant, late: impl FnOnce() -> Status + Send + 'static) -> Body {
    // A response without a body must say so: some clients treat an empty frame at its end as a fault.
    if body.is_end_stream() {
        return body;
    }
    let open = Some((body, Box::pin(sleep_until(deadline)), late));
    let frames = stream::unfold(open, |open| async move {
        let (mut body, mut clock, late) = open?;
        select! {
            // The clock comes first: a stream that always has more must end too.
            biased;
            () = &mut clock => Some((Ok(Frame::trailers(trailers(late()))), None)),
            frame = body.frame() => Some((frame?, Some((body, clock, late)))),
        }
    });
    Body::new(StreamBody::new(frames.fuse()))
}

fn trailers(status: Status) -> HeaderMap {
    let mut trailers = status.into_http::<()>().into_parts().0.headers;
    trailers.remove(CONTENT_TYPE);
    trailers
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Code;

    use super::*;

    fn until(pieces: impl futures::Stream<Item = Result<&'static str, axum::Error>> + Send + 'static) -> Body {
        let deadline = Instant::now() + Duration::from_secs(2);
        with_deadline(Body::from_stream(pieces), deadline, || Status::deadline_exceeded("late"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_at_its_deadline_and_not_before() {
        let began = Instant::now();
        let endless = until(stream::iter([Ok("first")]).chain(stream::pending())).collect().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 2);
        let status = Status::from_header_map(endless.trailers().unwrap()).unwrap();
        assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "late"));
        assert_eq!(endless.to_bytes(), "first");
        let short = until(stream::iter([Ok("all")])).collect().await.unwrap();
        assert!(short.trailers().is_none());
        assert_eq!(short.to_bytes(), "all");
        let deadline = Instant::now() + Duration::from_secs(2);
        assert!(with_deadline(Body::empty(), deadline, || Status::deadline_exceeded("late")).is_end_stream());
    }
}

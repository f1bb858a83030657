//! A response that ends when its client stops waiting.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

/// A body that ends with the status of `late` at `deadline` unless it has ended before.
pub(super) fn with_deadline(body: Body, deadline: Instant, late: impl FnOnce() -> Status + Send + 'static) -> Body {
    Body::new(DeadlineBody { open: Some((body, Box::new(late))), deadline: Box::pin(sleep_until(deadline)) })
}

type LateStatus = Box<dyn FnOnce() -> Status + Send>;

struct DeadlineBody {
    /// None once it has ended.
    open: Option<(Body, LateStatus)>,
    deadline: Pin<Box<Sleep>>,
}

impl HttpBody for DeadlineBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // The deadline comes first: a stream that always has more must end too.
        if self.open.is_some() && self.deadline.as_mut().poll(context).is_ready() {
            let late = self.open.take().map(|(_, late)| Ok(Frame::trailers(trailers(late()))));
            return Poll::Ready(late);
        }
        let Some((body, _)) = &mut self.open else { return Poll::Ready(None) };
        let polled = ready!(Pin::new(body).poll_frame(context));
        if polled.is_none() {
            self.open = None;
        }
        Poll::Ready(polled)
    }

    /// A response without a body must say so: some clients treat an empty frame at its end as a fault.
    fn is_end_stream(&self) -> bool {
        self.open.as_ref().is_none_or(|(body, _)| body.is_end_stream())
    }
}

fn trailers(status: Status) -> HeaderMap {
    let mut trailers = status.into_http::<()>().into_parts().0.headers;
    trailers.remove(CONTENT_TYPE);
    trailers
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
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

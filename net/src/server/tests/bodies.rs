//! The room that arriving bodies share.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use tokio::time::{Instant, sleep};

use crate::server::{Bodies, BodyError};

#[tokio::test(start_paused = true)]
async fn a_body_is_read_within_its_bounds() {
    let bodies = Bodies::new(100);
    let whole = |size: usize| Full::<Bytes>::from(vec![0; size]);
    let kept = bodies.read(whole(60), 60, 80).await.unwrap();
    assert_eq!(kept.len(), 60);
    assert_eq!(bodies.read(whole(41), 60, 80).await, Err(BodyError::NoRoom));
    drop(kept);
    assert_eq!(bodies.read(whole(41), 60, 80).await.unwrap().len(), 41);
    assert_eq!(bodies.read(whole(61), 60, 80).await, Err(BodyError::TooLarge));
    assert_eq!(bodies.read(whole(81), 60, 80).await, Err(BodyError::TooLarge));
    // A body that stands still gives way after a second, when there is no room for another.
    let still = || {
        let some = futures::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(vec![0; 60])))]);
        bodies.read(StreamBody::new(some.chain(futures::stream::pending())), 60, 80)
    };
    let crowd = async {
        sleep(Duration::from_millis(900)).await;
        assert_eq!(bodies.read(whole(60), 60, 80).await, Err(BodyError::NoRoom));
        sleep(Duration::from_millis(200)).await;
        assert_eq!(bodies.read(whole(60), 60, 80).await, Err(BodyError::NoRoom));
        sleep(Duration::from_millis(1)).await;
        bodies.read(whole(60), 60, 80).await.map(|_| Instant::now())
    };
    let began = Instant::now();
    let (still, after) = tokio::join!(still(), crowd);
    assert_eq!(still, Err(BodyError::NoRoom));
    assert!(after.unwrap() - began < Duration::from_secs(2));
    let dripping = futures::stream::unfold((), |()| async {
        sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x"))), ()))
    });
    assert_eq!(bodies.read(StreamBody::new(Box::pin(dripping)), 60, 80).await, Err(BodyError::Late));
    let broken = futures::stream::iter([Ok(Frame::data(Bytes::from_static(b"x"))), Err("cut")]);
    assert_eq!(bodies.read(StreamBody::new(broken), 60, 80).await, Err(BodyError::Broken));
    assert_eq!(bodies.read(whole(60), 60, 80).await.unwrap().len(), 60);
}

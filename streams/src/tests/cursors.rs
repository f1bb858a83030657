//! The cursor that several subscriptions of one view have in common.

use tokio_util::sync::CancellationToken;

use super::{Client, FakeCore, TOKENS};
use crate::Subscription;

#[tokio::test(start_paused = true)]
async fn a_common_cursor_skips_nothing_that_one_of_them_has_not_shown() {
    let datasets = ["a", "b"];
    let core = FakeCore::new(&datasets, 4, 1_000);
    let hub = core.hub(CancellationToken::new());
    for dataset in datasets {
        core.log(dataset).append(&[Some(TOKENS[0]); 3]);
    }
    let mut ahead = Client::open(&hub, Some(0), &TOKENS).await;
    let mut behind = Client::open(&hub, Some(0), &TOKENS).await;
    ahead.drain().await;
    behind.read(1);
    behind.more().await.unwrap();
    behind.read(1);
    assert!(!behind.got.is_empty() && behind.got.len() < ahead.got.len());
    let [lower, higher] = [&behind, &ahead].map(|client| client.subscription.cursor());
    assert_ne!(lower, higher);
    for both in [[&behind, &ahead], [&ahead, &behind]] {
        let common = Subscription::common_cursor(both.map(|client| &client.subscription));
        assert_eq!(common.as_ref(), Some(&lower));
    }
    assert_eq!(Subscription::common_cursor([]), None);
}

//! Wallets: asked for when somebody asks, and shown where flag and scope allow it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::assert_public;
use super::{REFRESH, wallets_of};
use crate::harness::{Client, Following, SOON, eventually, iso, now_ms, text};

fn wallet(address: &str, is_public: bool, is_authorized: bool, observed_at: i64) -> Value {
    json!({
        "address": address, "network": "ethereum", "public": is_public, "authorized": is_authorized,
        "observed_at": iso(observed_at), "balance": "never-stored",
    })
}

/// `holder` has the scope; the customer of `live` has not.
pub(super) async fn only_public_and_authorized_ones_are_shown(live: &Following, holder: &Client) {
    let at = now_ms() - 60_000;
    let profile = live.upstream.profile("Holder").await;
    let mut undated = wallet("0xUndated", true, true, at);
    undated.as_object_mut().unwrap().remove("observed_at");
    let given = [
        wallet("0xOlder", true, true, at - 1_000),
        wallet("0xHidden", false, true, at + 5_000),
        wallet("0xUnproven", true, false, at + 5_000),
        wallet("0xNewest", true, true, at),
        undated,
    ];
    live.upstream.set_wallets(&profile, &json!(given)).await;
    let began = Instant::now();
    let before = live.upstream.look_ups("wallets").await;
    let path = "/v1/profiles/@holder/wallets";
    for _ in 0..5 {
        let answer = holder.get(path).await;
        let listed = answer.ok(200);
        assert_eq!(wallets_of(&listed), [("0xNewest", "ethereum"), ("0xOlder", "ethereum")]);
        assert_eq!((text(&listed["profile"], "handle"), &listed["livemode"]), ("@Holder", &json!(true)));
        assert_public(&answer.text);
        let shown = holder.get("/v1/profiles?handle=holder").await.ok(200);
        assert_eq!(shown["wallet"], json!({"address": "0xNewest", "network": "ethereum"}));
    }
    let lookups = live.upstream.look_ups("wallets").await - before;
    // One, and one more for each time that they may have grown old.
    assert!((1..=1 + began.elapsed().as_secs() / REFRESH).contains(&lookups), "{lookups} in {:?}", began.elapsed());

    live.client.get(path).await.error(403, "INSUFFICIENT_SCOPE");
    let bare = live.client.get("/v1/profiles?handle=holder").await.ok(200);
    assert!(bare.get("wallet").is_none(), "{bare}");
    // Once they are old they are asked for again, and what the upstream has no longer is gone.
    live.upstream.set_wallets(&profile, &json!([wallet("0xNewer", true, true, at + 1_000)])).await;
    let changed = async || {
        let listed = holder.get(path).await.ok(200);
        (wallets_of(&listed) == [("0xNewer", "ethereum")]).then_some(())
    };
    eventually("the wallets are asked for again", SOON + Duration::from_secs(REFRESH), changed).await;
    let shown = holder.get("/v1/profiles?handle=holder").await.ok(200);
    assert_eq!(shown["wallet"]["address"], "0xNewer");
    live.upstream.set_wallets(&profile, &json!([])).await;
    let empty = async || wallets_of(&holder.get(path).await.ok(200)).is_empty().then_some(());
    eventually("no wallet is left", SOON, empty).await;
    assert!(holder.get("/v1/profiles?handle=holder").await.ok(200).get("wallet").is_none());
    // Those of somebody unknown are looked up with their profile.
    let unknown = live.upstream.profile("Second_holder").await;
    live.upstream.set_wallets(&unknown, &json!([wallet("0xSecond", true, true, at)])).await;
    let listed = holder.get("/v1/profiles/second_holder/wallets").await.ok(200);
    assert_eq!(wallets_of(&listed), [("0xSecond", "ethereum")]);
}

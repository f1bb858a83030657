//! Whether a service and its upstream agree, row by row.

use std::{
    collections::{HashMap, HashSet},
    future::ready,
    pin::pin,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Following, SOON, eventually, ids, profile_id, reference, text, thesis_id, time};

/// The pause between two comparisons.
const PAUSE: Duration = Duration::from_millis(100);
/// Searches at once, and comparisons of profiles.
const AT_ONCE: usize = 8;

/// An upstream as it is.
struct Truth {
    theses: Vec<Value>,
    profiles: HashMap<String, Value>,
    tokens: HashMap<String, Value>,
}

fn is_living(thesis: &Value) -> bool {
    thesis["deleted"] != true
}

/// A word of a thesis's text that every reader takes as one word.
fn word(thesis: &Value) -> Option<&str> {
    let words = thesis["text"].as_str()?.split_whitespace();
    let mut bare = words.map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
    bare.find(|word| word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

impl Truth {
    fn living(&self) -> impl Iterator<Item = &Value> {
        self.theses.iter().filter(|thesis| is_living(thesis))
    }

    /// The row of a thesis; what the upstream does not decide is as in the row that was found.
    fn row(&self, thesis: &Value, found: &Value) -> Value {
        let (profile, token) =
            (&self.profiles[text(&thesis["profile"], "id")], &self.tokens[&reference(&thesis["token"])]);
        json!({
            "object": "thesis",
            "id": thesis_id(thesis),
            "profile": {
                "id": profile_id(profile),
                "handle": format!("@{}", text(profile, "handle")),
                "display_name": profile["display_name"],
                "avatar_url": profile["avatar_url"],
            },
            "token": {
                "id": found["token"]["id"],
                "symbol": format!("${}", text(token, "symbol")),
                "name": token["name"],
                "chain": token["chain"],
                "address": token["address"],
            },
            "text": thesis["text"],
            "public_url": null,
            "likes": thesis["likes"],
            "replies": thesis["replies"],
            "created_at": thesis["created_at"],
            "updated_at": found["updated_at"],
            "source": "upstream",
            "livemode": true,
        })
    }
}

impl Following {
    /// Waits until all names, counts, rows and events are the upstream's, and nothing else is there.
    pub(crate) async fn agrees(&self, within: Duration) {
        self.wait_until_same(within, true).await;
        let theses = self.upstream.truth("theses").await;
        for thesis in theses.iter().filter(|thesis| !is_living(thesis)) {
            let answer = self.client.get(&format!("/v1/theses/{}", thesis_id(thesis))).await;
            answer.error(404, "THESIS_NOT_FOUND");
        }
        let log = self.service.check_log("live").await;
        assert_eq!((log.gaps, log.duplicates, log.entries), (0, 0, log.head), "{log:?}");
    }

    /// Waits until all rows and events are the upstream's but for the names, which it may tell by look-ups alone.
    pub(crate) async fn has_every_thesis(&self, within: Duration) {
        self.wait_until_same(within, false).await;
    }

    async fn wait_until_same(&self, within: Duration, with_names: bool) {
        let end = Instant::now() + within;
        while let Some(difference) = self.difference(with_names).await {
            assert!(Instant::now() < end, "not the same within {within:?}: {difference}");
            sleep(PAUSE).await;
        }
    }

    /// Waits until each thesis is found by a word of its text, and no deleted one is; gives how many were searched for.
    pub(crate) async fn finds_all(&self) -> usize {
        let theses = self.upstream.truth("theses").await;
        let named = theses.iter().filter_map(|thesis| Some((thesis, word(thesis)?)));
        let searches = stream::iter(named).map(|(thesis, word)| self.finds(thesis, word));
        searches.buffer_unordered(AT_ONCE).count().await
    }

    async fn finds(&self, thesis: &Value, word: &str) {
        let (id, at, on) = (thesis_id(thesis), text(thesis, "created_at"), reference(&thesis["token"]));
        let path =
            format!("/v1/search?q={word}&types=theses&limit=50&token={on}&created_after={at}&created_before={at}");
        let is_right = async || {
            let found = self.client.search(&path).await.ok(200);
            let is_found = ids(found["theses"].as_array().unwrap()).contains(&&*id);
            (is_found == is_living(thesis)).then_some(())
        };
        eventually(&format!("{path} is right about {thesis}"), SOON, is_right).await;
    }

    async fn difference(&self, with_names: bool) -> Option<String> {
        let [theses, profiles, tokens] = [
            self.upstream.truth("theses").await,
            self.upstream.truth("profiles").await,
            self.upstream.truth("tokens").await,
        ];
        let profiles = profiles.into_iter().map(|profile| (text(&profile, "id").to_owned(), profile)).collect();
        let tokens = tokens.into_iter().map(|token| (reference(&token), token)).collect();
        let truth = Truth { theses, profiles, tokens };
        // A refresh on demand brings names that the feed did not tell, so profiles and tokens come first.
        if with_names && let Some(difference) = self.profiles_differ(&truth).await {
            return Some(difference);
        }
        if with_names && let Some(difference) = self.tokens_differ(&truth).await {
            return Some(difference);
        }
        if let Some(difference) = self.rows_differ(&truth, with_names).await {
            return Some(difference);
        }
        self.events_differ(&truth).await
    }

    async fn profiles_differ(&self, truth: &Truth) -> Option<String> {
        let authors: HashSet<&str> = truth.theses.iter().map(|thesis| text(&thesis["profile"], "id")).collect();
        let compared = stream::iter(authors).map(|author| self.profile_differs(&truth.profiles[author]));
        pin!(compared.buffer_unordered(AT_ONCE).filter_map(ready)).next().await
    }

    async fn profile_differs(&self, profile: &Value) -> Option<String> {
        let by_id = self.client.get(&format!("/v1/profiles?upstream_user_id={}", text(profile, "id"))).await;
        let path = format!("/v1/profiles?handle={}", text(profile, "handle"));
        let by_handle = self.client.get(&path).await;
        let found = by_id.json();
        let mut expected = found.clone();
        expected["id"] = json!(profile_id(profile));
        expected["handle"] = json!(format!("@{}", text(profile, "handle")));
        (expected["source"], expected["livemode"]) = (json!("upstream"), json!(true));
        for name in ["display_name", "avatar_url", "profile_url", "bio", "verified", "created_at"] {
            expected[name] = profile[name].clone();
        }
        let is_same = by_id.status == 200 && found == expected && found.get("stale").is_none();
        let is_right = is_same && by_handle.status == 200 && by_handle.json()["id"] == found["id"];
        (!is_right).then(|| format!("profile {profile} is {found}, by its handle {}", by_handle.text))
    }

    async fn tokens_differ(&self, truth: &Truth) -> Option<String> {
        let named: HashSet<String> = truth.theses.iter().map(|thesis| reference(&thesis["token"])).collect();
        for name in named {
            let token = &truth.tokens[&name];
            let living: Vec<&Value> = truth.living().filter(|thesis| reference(&thesis["token"]) == name).collect();
            let authors: HashSet<&str> = living.iter().map(|thesis| text(&thesis["profile"], "id")).collect();
            let newest = living.iter().map(|thesis| text(thesis, "created_at")).max();
            let answer = self.client.get(&format!("/v1/tokens/{name}")).await;
            let found = answer.json();
            let mut expected = found.clone();
            expected["symbol"] = json!(format!("${}", text(token, "symbol")));
            for name in ["chain", "address", "name", "chain_id", "logo_url", "platform_url"] {
                expected[name] = token[name].clone();
            }
            expected["thesis_count"] = json!(living.len());
            expected["recent_thesis_count"] = json!(living.len());
            expected["unique_thesis_authors"] = json!(authors.len());
            expected["last_activity_at"] = json!(newest);
            (expected["source"], expected["livemode"]) = (json!("upstream"), json!(true));
            if answer.status != 200 || found != expected || found.get("stale").is_some() {
                return Some(format!("token {expected} is {found}"));
            }
        }
        None
    }

    async fn rows_differ(&self, truth: &Truth, with_names: bool) -> Option<String> {
        let listed = self.client.all("/v1/theses?limit=100&sort=created_at_asc").await;
        let found: HashMap<&str, &Value> = listed.iter().map(|row| (text(row, "id"), row)).collect();
        assert_eq!(found.len(), listed.len(), "a thesis is listed twice");
        for thesis in truth.living() {
            let Some(row) = found.get(&*thesis_id(thesis)) else { return Some(format!("{thesis} is not there")) };
            let mut expected = truth.row(thesis, row);
            if !with_names {
                (expected["profile"], expected["token"]) = (row["profile"].clone(), row["token"].clone());
            }
            if **row != expected || time(row, "updated_at") > time(thesis, "updated_at") {
                return Some(format!("row {expected} is {row}"));
            }
        }
        let living = truth.living().count();
        (listed.len() != living).then(|| format!("{} rows instead of {living}", listed.len()))
    }

    /// A deleted thesis has an event if it was known before its deletion.
    async fn events_differ(&self, truth: &Truth) -> Option<String> {
        let events = self.client.all("/v1/events?types=thesis.created&limit=100").await;
        let about: HashSet<&str> = events.iter().map(|event| text(&event["data"], "thesis_id")).collect();
        assert_eq!(about.len(), events.len(), "a thesis has two events");
        assert!(events.iter().all(|event| event["source"] == "upstream" && event["livemode"] == true));
        let known: HashSet<String> = truth.theses.iter().map(thesis_id).collect();
        assert!(about.iter().all(|id| known.contains(*id)), "an event is about a thesis that never was");
        let without = truth.living().find(|thesis| !about.contains(&*thesis_id(thesis)));
        without.map(|thesis| format!("no event about {thesis}"))
    }
}

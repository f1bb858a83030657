//! Lists and verification by an author and a token or chain, while the author's theses become too many to filter.

use std::collections::BTreeMap;

use serde_json::json;
use thesis_proto::v1::observation::Observed;

use crate::harness::{
    Client, Service,
    ingest::{author, deletion, seen_at, thesis, token},
    iso, now_ms, text,
};

on_both_stores![an_author_with_ever_more_theses_is_listed_and_verified];

const MINUTE_MS: i64 = 60_000;
/// Every twentieth thesis is on the rare token, which is on another chain.
const RARE_EVERY: i64 = 20;

/// Demands that every list of the author has exactly these theses, given by their number.
async fn expect_lists(client: &Client, there: &BTreeMap<i64, String>) {
    let is_rare = |number: i64| number % RARE_EVERY == 0;
    let filters = [("token=RARE", true), ("chain=base", true), ("token=COMMON", false), ("chain=solana", false)];
    for (filter, rare) in filters {
        let expected: Vec<&str> =
            there.iter().filter(|(number, _)| is_rare(**number) == rare).map(|(_, id)| id.as_str()).collect();
        for (sort, is_descending) in [("created_at_asc", false), ("created_at_desc", true)] {
            let rows = client.all(&format!("/v1/theses?limit=50&handle=prolific&{filter}&sort={sort}")).await;
            let mut found: Vec<&str> = rows.iter().map(|row| text(row, "id")).collect();
            if is_descending {
                found.reverse();
            }
            assert_eq!(found, expected, "{filter}, {sort}, with {} theses", there.len());
        }
    }
}

async fn an_author_with_ever_more_theses_is_listed_and_verified(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    let writer = author("u-prolific", "prolific");
    let (common, rare) = (token("solana", "CommonMint", "COMMON"), token("base", "0xrare", "RARE"));
    let start = now_ms() - 200 * MINUTE_MS;
    let at = |number: i64| start + number * MINUTE_MS;
    let mut there = BTreeMap::new();
    // The 129th thesis makes the author prolific, though some are deleted before it.
    let rounds = [(1..=127, [20, 33]), (128..=128, [40, 41]), (129..=129, [60, 128]), (130..=140, [80, 129])];
    for (numbers, deleted) in rounds {
        let posted = numbers.clone().map(|number| {
            let on = if number % RARE_EVERY == 0 { &rare } else { &common };
            let posted = thesis(&format!("p{number}"), &writer, on, "said", at(number));
            seen_at(now_ms(), Observed::Thesis(posted))
        });
        let results = service.ingest(&dataset, posted.collect()).await;
        there.extend(numbers.zip(results.into_iter().map(|result| result.id)));
        expect_lists(&client, &there).await;
        for number in deleted {
            service.learn(&dataset, seen_at(now_ms(), deletion(&format!("p{number}")))).await;
            there.remove(&number);
        }
        expect_lists(&client, &there).await;
        // The first of the deleted theses is on the rare token.
        for (number, reason) in [(deleted[0], "THESIS_DELETED"), (100, "VERIFIED")] {
            let time = iso(at(number));
            let claim = json!({"handle": "prolific", "token": "RARE", "created_after": &time, "created_before": &time});
            let verdict = client.post("/v1/verify/thesis", &claim).await.ok(200);
            assert_eq!(text(&verdict, "reason"), reason, "{verdict}");
        }
    }
}

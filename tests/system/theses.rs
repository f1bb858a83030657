//! `GET /v1/theses` and `GET /v1/theses/{id}`.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{
    Client, Service, assert_fields, ids,
    ingest::{author, thesis, token},
    iso, now_ms, rows, text, time,
};

on_both_stores![
    a_page_is_newest_first_and_whole,
    filters_combine_freely,
    bounds_are_inclusive,
    since_counts_back_from_now,
    the_later_lower_bound_wins,
    pages_neither_repeat_nor_skip_while_theses_arrive,
    a_page_may_change_its_size_but_not_its_filters,
    unknown_names_give_an_empty_list,
    the_history_window_bounds_what_is_read,
    by_id_gives_the_row_of_the_list,
    what_another_project_owns_does_not_exist,
];

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Every thesis of the sandbox, newest first, as a key without test data of its own sees them.
async fn sandbox(client: &Client) -> Vec<Value> {
    client.all("/v1/theses?limit=100").await
}

fn order(thesis: &Value) -> (i64, &str) {
    (time(thesis, "created_at"), text(thesis, "id"))
}

async fn a_page_is_newest_first_and_whole(service: &Service) {
    let client = service.test_client().await;
    let page = client.get("/v1/theses").await.ok(200);
    let first = rows(&page);
    assert_eq!((first.len(), &page["has_more"]), (25, &json!(true)));
    for thesis in first {
        let counts = ["likes", "replies", "created_at", "updated_at", "source", "livemode"];
        assert_fields(thesis, &[&["object", "id", "profile", "token", "text", "public_url"][..], &counts].concat());
        assert_fields(&thesis["profile"], &["id", "handle", "display_name", "avatar_url"]);
        assert_fields(&thesis["token"], &["id", "symbol", "name", "chain", "address"]);
        assert_eq!((text(thesis, "object"), text(thesis, "source")), ("thesis", "sandbox"));
        assert_eq!((&thesis["livemode"], &thesis["public_url"]), (&json!(false), &Value::Null));
        assert!(text(thesis, "id").starts_with("th_") && text(&thesis["profile"], "id").starts_with("fp_"));
        assert!(text(&thesis["token"], "id").starts_with("tk_") && text(&thesis["token"], "symbol").starts_with('$'));
        assert!(text(&thesis["profile"], "handle").starts_with("@sbx_"));
        assert!(text(&thesis["profile"], "display_name").ends_with("(sandbox)"));
        assert!(thesis["likes"].is_u64() && thesis["replies"].is_u64());
    }
    let all = sandbox(&client).await;
    assert_eq!(all.len(), 150);
    assert_eq!(all[..25], first[..]);
    assert!(all.is_sorted_by(|newer, older| order(newer) > order(older)));
    let newest_last = client.all("/v1/theses?sort=created_at_asc&limit=100").await;
    assert!(newest_last.iter().rev().eq(&all));
    assert_eq!(client.all("/v1/theses?sort=created_at_desc&limit=7").await, all);
    let distinct = |of: fn(&Value) -> &str| all.iter().map(of).collect::<HashSet<_>>().len();
    assert_eq!(distinct(|thesis| text(&thesis["profile"], "handle")), 8);
    assert_eq!(distinct(|thesis| text(&thesis["token"], "symbol")), 6);
    // Live keys read live data alone.
    let live = service.project().await.live().await.all("/v1/theses?limit=100").await;
    assert!(live.iter().all(|thesis| thesis["livemode"] == true && thesis["source"] == "upstream"));
}

/// Demands that a query gives the theses of the sandbox that `wanted` picks.
async fn expect(client: &Client, all: &[Value], query: &str, wanted: impl Fn(&Value) -> bool) {
    let found = client.all(&format!("/v1/theses?limit=40&{query}")).await;
    let expected: Vec<Value> = all.iter().filter(|thesis| wanted(thesis)).cloned().collect();
    assert_eq!(ids(&found), ids(&expected), "{query}");
    assert_eq!(found, expected, "{query}");
}

async fn filters_combine_freely(service: &Service) {
    let client = service.test_client().await;
    let all = sandbox(&client).await;
    let by = |thesis: &Value, handle: &str| thesis["profile"]["handle"] == handle;
    let on = |thesis: &Value, symbol: &str| thesis["token"]["symbol"] == symbol;
    let runner = all.iter().find(|thesis| by(thesis, "@sbx_runner")).unwrap()["profile"].clone();
    let run = all.iter().find(|thesis| on(thesis, "$RUN")).unwrap()["token"].clone();
    let of_runner = |thesis: &Value| by(thesis, "@sbx_runner");
    for query in
        ["profile=sbx_1", "profile=@sbx_runner", "handle=sbx_runner", "handle=@sbx_runner", "handle=SBX_Runner"]
    {
        expect(&client, &all, query, of_runner).await;
    }
    expect(&client, &all, &format!("profile={}", text(&runner, "id")), of_runner).await;
    expect(&client, &all, &format!("profile={}&handle=sbx_runner", text(&runner, "id")), of_runner).await;
    let on_run = |thesis: &Value| on(thesis, "$RUN");
    let address = text(&run, "address");
    for token in ["$RUN", "RUN", "$run", "run", "%24RUN", text(&run, "id"), address, &format!("sandbox:{address}")] {
        expect(&client, &all, &format!("token={token}"), on_run).await;
        expect(&client, &all, &format!("token={token}&chain=sandbox"), on_run).await;
    }
    expect(&client, &all, "chain=sandbox", |_| true).await;
    let middle = time(&all[75], "created_at");
    let bounds = format!("created_after={}&created_before={}", iso(middle - DAY_MS), iso(middle + DAY_MS));
    let between = |thesis: &Value| (middle - DAY_MS..=middle + DAY_MS).contains(&time(thesis, "created_at"));
    expect(&client, &all, &bounds, between).await;
    expect(&client, &all, &format!("handle=sbx_chartist&{bounds}"), |thesis| {
        by(thesis, "@sbx_chartist") && between(thesis)
    })
    .await;
    expect(&client, &all, &format!("handle=sbx_runner&token=RUN&chain=sandbox&{bounds}"), |thesis| {
        of_runner(thesis) && on_run(thesis) && between(thesis)
    })
    .await;
    expect(&client, &all, "profile=sbx_2&token=$RACE", |thesis| by(thesis, "@sbx_chartist") && on(thesis, "$RACE"))
        .await;
    expect(&client, &all, "handle=sbx_scout&chain=sandbox", |thesis| by(thesis, "@sbx_scout")).await;
    // A parameter name that is nearly right is refused.
    let answer = client.get("/v1/theses?token=$TAG&handles=sbx_runner&colour=red").await;
    answer.invalid(&["handles", "colour"]);
    assert_eq!(text(&answer.json()["error"], "message"), "handles: unknown; did you mean `handle`?");
}

async fn bounds_are_inclusive(service: &Service) {
    let client = service.test_client().await;
    let all = sandbox(&client).await;
    let at = time(&all[60], "created_at");
    expect(&client, &all, &format!("created_after={0}&created_before={0}", iso(at)), |thesis| {
        time(thesis, "created_at") == at
    })
    .await;
    let after = |bound: i64| move |thesis: &Value| time(thesis, "created_at") >= bound;
    expect(&client, &all, &format!("created_after={}", iso(at)), after(at)).await;
    expect(&client, &all, &format!("created_after={}", iso(at + 1)), after(at + 1)).await;
    expect(&client, &all, &format!("created_before={}", iso(at)), |thesis| time(thesis, "created_at") <= at).await;
    // A time before all theses is not malformed.
    for early in ["1969-12-31T23:59:59.999Z", "0001-01-01"] {
        expect(&client, &all, &format!("created_before={early}"), |_| false).await;
        for path in ["/v1/events?", "/v1/search?q=the&types=theses&"] {
            let found = client.get(&format!("{path}created_before={early}")).await.ok(200);
            assert_eq!([&found["data"], &found["theses"]].iter().filter(|rows| **rows == &json!([])).count(), 1);
        }
        for path in ["/v1/theses?", "/v1/events?", "/v1/search?q=the&"] {
            client.get(&format!("{path}created_after={early}")).await.error(403, "HISTORY_LIMIT");
        }
    }
    // Any time offset is accepted.
    let local = iso(at + 2 * HOUR_MS).replace('Z', "%2B02:00");
    expect(&client, &all, &format!("created_after={local}"), after(at)).await;
}

async fn since_counts_back_from_now(service: &Service) {
    let client = service.test_client().await;
    let all = sandbox(&client).await;
    for (since, span) in [("5400s", 5_400_000), ("90m", 5_400_000), ("30h", 30 * HOUR_MS), ("3d", 3 * DAY_MS)] {
        let before = now_ms();
        let found = client.all(&format!("/v1/theses?limit=100&since={since}")).await.len();
        let after = now_ms();
        let expected = |now: i64| all.iter().filter(|thesis| time(thesis, "created_at") >= now - span).count();
        assert!((expected(after)..=expected(before)).contains(&found), "{since}: {found}");
    }
}

async fn the_later_lower_bound_wins(service: &Service) {
    let client = service.test_client().await;
    let all = sandbox(&client).await;
    let (early, late) = (time(&all[120], "created_at"), time(&all[20], "created_at"));
    for (since, bound) in [("300d", early), ("300d", late)] {
        let query = format!("since={since}&created_after={}", iso(bound));
        expect(&client, &all, &query, |thesis| time(thesis, "created_at") >= bound).await;
    }
    let with_early = client.all(&format!("/v1/theses?limit=100&since=1h&created_after={}", iso(early))).await;
    let alone = client.all("/v1/theses?limit=100&since=1h").await;
    assert!(with_early.len().abs_diff(alone.len()) <= 1 && with_early.len() < 20);
}

async fn pages_neither_repeat_nor_skip_while_theses_arrive(service: &Service) {
    for (sort, newcomers_follow) in [("created_at_desc", false), ("created_at_asc", true)] {
        let client = service.test_client().await;
        let mut expected = Vec::new();
        for number in 0..20 {
            expected.push(client.thesis("writer", "PAGES", &format!("before {number}")).await.0);
        }
        let mut path = format!("/v1/theses?handle=writer&limit=7&sort={sort}");
        let mut found = Vec::new();
        let base = path.clone();
        for page_number in 0.. {
            let page = client.get(&path).await.ok(200);
            found.extend(rows(&page).clone());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            path = format!("{base}&cursor={cursor}");
            if page_number < 3 {
                let newcomer = client.thesis("writer", "PAGES", "meanwhile").await.0;
                if newcomers_follow {
                    expected.push(newcomer);
                }
            }
        }
        expected.sort_by(|a, b| order(a).cmp(&order(b)));
        if !newcomers_follow {
            expected.reverse();
        }
        assert_eq!(ids(&found), ids(&expected), "{sort}");
        assert_eq!(found, expected);
    }
}

async fn a_page_may_change_its_size_but_not_its_filters(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let all = sandbox(&client).await;
    let page = client.get("/v1/theses?limit=3").await.ok(200);
    let cursor = text(&page, "next_cursor");
    assert!(cursor.len() <= 512);
    let rest = client.get(&format!("/v1/theses?limit=100&cursor={cursor}")).await.ok(200);
    assert_eq!(rows(&rest)[..], all[3..103]);
    // Another key of the project sees the same list.
    let other = project.test().await.get(&format!("/v1/theses?limit=2&cursor={cursor}")).await.ok(200);
    assert_eq!(rows(&other)[..], all[3..5]);

    let foreign = service.test_client().await;
    let mut forged = cursor.to_owned();
    forged.replace_range(0..1, if forged.starts_with('A') { "B" } else { "A" });
    for (client, query) in [
        (&client, format!("sort=created_at_asc&cursor={cursor}")),
        (&client, format!("token=RUN&cursor={cursor}")),
        (&client, format!("since=9d&cursor={cursor}")),
        (&client, format!("cursor={forged}")),
        (&client, format!("cursor={}", &cursor[1..])),
        (&client, "cursor=nonsense".to_owned()),
        (&foreign, format!("cursor={cursor}")),
    ] {
        let error = client.get(&format!("/v1/theses?{query}")).await.error(400, "INVALID_CURSOR");
        assert_eq!(error["param"], "cursor");
    }
}

async fn unknown_names_give_an_empty_list(service: &Service) {
    let client = service.test_client().await;
    for query in [
        "profile=@nobody",
        "profile=fp_unknown",
        "profile=sbx_9",
        "handle=nobody",
        "token=$NOTHING",
        "token=tk_unknown",
        "token=sandbox:unknown",
        "token=RUN&chain=solana",
        "chain=solana",
        "handle=nobody&token=RUN",
        "profile=sbx_1&handle=sbx_chartist",
    ] {
        let page = client.get(&format!("/v1/theses?{query}")).await.ok(200);
        assert_eq!(page, json!({"object": "list", "data": [], "next_cursor": null, "has_more": false}), "{query}");
    }
}

async fn the_history_window_bounds_what_is_read(service: &Service) {
    let all = sandbox(&service.test_client().await).await;
    let project = service.project_on("day").await;
    let client = project.test().await;
    // The fixtures stay usable on every plan: in lists, by id and in search.
    for query in ["limit=100", "limit=7&sort=created_at_asc", "limit=9&token=RUN"] {
        let path = format!("/v1/theses?{query}");
        assert_eq!(client.all(&path).await, service.test_client().await.all(&path).await, "{query}");
    }
    let oldest = &all[149];
    assert!(time(oldest, "created_at") < now_ms() - 5 * DAY_MS);
    assert_eq!(client.get(&format!("/v1/theses/{}", text(oldest, "id"))).await.ok(200), *oldest);

    // A requested bound must still lie in the window.
    let too_early = iso(now_ms() - DAY_MS - 90_000);
    for query in ["since=2d".to_owned(), "since=25h".to_owned(), format!("created_after={too_early}")] {
        client.get(&format!("/v1/theses?{query}")).await.error(403, "HISTORY_LIMIT");
    }
    client.get(&format!("/v1/search?q=run&created_after={too_early}")).await.error(403, "HISTORY_LIMIT");
    // The limit comes before the look-up.
    client.get("/v1/theses?since=2d&handle=nobody").await.error(403, "HISTORY_LIMIT");
    // Clients compute "a day ago" with their own clock.
    let day: Vec<&Value> = all.iter().filter(|thesis| time(thesis, "created_at") >= now_ms() - DAY_MS).collect();
    let slack = format!("created_after={}", iso(now_ms() - DAY_MS - 30_000));
    for query in ["since=24h", "since=1d", &slack, "since=2d&created_after=2099-01-01T00:00:00Z"] {
        let page = client.get(&format!("/v1/theses?limit=100&{query}")).await.ok(200);
        assert!(rows(&page).len() <= day.len() && rows(&page).iter().all(|row| day.contains(&row)), "{query}");
        let walked = client.all(&format!("/v1/theses?limit=3&{query}")).await;
        assert!(walked.len() <= day.len() && rows(&page).len().abs_diff(walked.len()) <= 1, "{query}");
    }
    let free = service.project_on("free").await.test().await;
    free.get("/v1/theses?since=8d").await.error(403, "HISTORY_LIMIT");
    free.get("/v1/theses?since=7d").await.ok(200);
    // The window cuts off the project's own theses, and live ones.
    let on = token("solana", "WindowMint", "WINDOW");
    let post = async |dataset: &str, id: &str, age: i64| {
        service.post(dataset, thesis(id, &author("u-window", "window"), &on, "windowed", now_ms() - age)).await
    };
    let live = project.live().await;
    for (dataset, client) in [(project.dataset(), &client), ("live".to_owned(), &live)] {
        let young = post(&dataset, "w-1", HOUR_MS).await;
        let older = post(&dataset, "w-2", DAY_MS + 120_000).await;
        for query in ["token=WINDOW", "handle=window", "token=WINDOW&sort=created_at_asc"] {
            assert_eq!(ids(&client.all(&format!("/v1/theses?{query}")).await), [&*young], "{query}");
        }
        client.get(&format!("/v1/theses/{young}")).await.ok(200);
        client.get(&format!("/v1/theses/{older}")).await.error(403, "HISTORY_LIMIT");
    }
}

async fn by_id_gives_the_row_of_the_list(service: &Service) {
    let client = service.test_client().await;
    for thesis in &sandbox(&client).await[..3] {
        assert_eq!(client.get(&format!("/v1/theses/{}", text(thesis, "id"))).await.ok(200), *thesis);
    }
    let own = client.thesis("writer", "OWN", "mine").await.0;
    assert_eq!(client.get(&format!("/v1/theses/{}", text(&own, "id"))).await.ok(200), own);
}

async fn what_another_project_owns_does_not_exist(service: &Service) {
    let thesis = service.test_client().await.thesis("writer", "SECRET", "nobody else's").await.0;
    let other = service.project().await;
    let never = "th_00000000000000000000000000"[..text(&thesis, "id").len()].to_owned();
    for client in [other.test().await, other.live().await] {
        let bytes = async |id: &str| {
            let answer = client.get(&format!("/v1/theses/{id}")).await;
            answer.error(404, "THESIS_NOT_FOUND");
            let mut names: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
            names.sort();
            (names, answer.same_everywhere())
        };
        let foreign = bytes(text(&thesis, "id")).await;
        for id in [&*never, "th_", "evt_1", "%00", "a%2Fb", &"x".repeat(65), &"x".repeat(5_000)] {
            assert_eq!(bytes(id).await, foreign, "{id}");
        }
    }
    // A live key sees nothing of the sandbox either.
    let sandbox = sandbox(&service.test_client().await).await;
    other.live().await.get(&format!("/v1/theses/{}", text(&sandbox[0], "id"))).await.error(404, "THESIS_NOT_FOUND");
}

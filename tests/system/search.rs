//! `GET /v1/search`, and theses in the order of likes.

mod folder;

use serde_json::{Value, json};
use thesis_proto::v1::Environment;

use crate::harness::{
    Client, SOON, Service, assert_fields, eventually, ids,
    ingest::{author, thesis, token},
    now_ms, rows, text,
};

on_both_stores![
    a_thesis_is_found_soon_after_its_event,
    what_is_found_is_whole_and_of_the_kinds_asked_for,
    handles_and_symbols_are_found_by_name,
    another_projects_rows_are_never_found,
    malformed_queries_are_named,
    the_window_spares_the_sandbox,
    likes_order_the_sandbox_and_pages_follow_each_other,
];

/// A client whose searches no limit stops: the time until a search finds a row depends on the machine.
async fn searcher(service: &Service) -> Client {
    service.project_on("huge").await.test().await
}

async fn search(client: &Client, query: &str) -> Value {
    client.search(&format!("/v1/search?{query}")).await.ok(200)
}

fn found<'a>(result: &'a Value, kind: &str) -> Vec<&'a str> {
    ids(result[kind].as_array().expect("a list"))
}

async fn post(client: &Client, words: &str) -> String {
    let body = json!({"handle": "finder", "token": "LOOK", "text": words});
    text(&client.post("/v1/test/theses", &body).await.ok(201)["thesis"], "id").to_owned()
}

/// Waits until a query finds a thesis, on each of two replicas in turn.
async fn until_found(client: &Client, query: &str, id: &str) {
    let is_found = async || found(&search(client, query).await, "theses").contains(&id);
    eventually(query, SOON, async || (is_found().await && is_found().await).then_some(())).await;
}

async fn a_thesis_is_found_soon_after_its_event(service: &Service) {
    let client = searcher(service).await;
    let id = post(&client, "Zweiundvierzig rockets 🚀 über 東京タワー today").await;
    for query in
        ["zweiundvierzig", "ROCKETS today", "%22rockets%20%F0%9F%9A%80%22", "%F0%9F%9A%80", "zweiund*", "東京", "ÜBER"]
    {
        until_found(&client, &format!("q={query}&token=LOOK"), &id).await;
    }
    for query in ["zweiundvierzig%20-rockets", "%22today%20rockets%22", "zweiundvierzig%20nowhere"] {
        assert!(found(&search(&client, &format!("q={query}")).await, "theses").is_empty(), "{query}");
    }
    assert_eq!(found(&search(&client, "q=nowhere%20OR%20zweiundvierzig").await, "theses"), [id]);
}

async fn what_is_found_is_whole_and_of_the_kinds_asked_for(service: &Service) {
    let client = searcher(service).await;
    let id = post(&client, "wholeness of the found").await;
    until_found(&client, "q=wholeness", &id).await;
    let result = search(&client, "q=wholeness").await;
    assert_fields(&result, &["object", "query", "theses", "profiles", "tokens", "livemode"]);
    assert_eq!((text(&result, "object"), text(&result, "query")), ("search_result", "wholeness"));
    assert_eq!(result["livemode"], false);
    assert_eq!(result["theses"][0], client.get(&format!("/v1/theses/{id}")).await.ok(200));
    for (types, theses, tokens) in
        [("theses", true, false), ("tokens,profiles", false, true), ("theses,tokens", true, true)]
    {
        let result = search(&client, &format!("q=run&types={types}&limit=50")).await;
        assert_eq!(!found(&result, "theses").is_empty(), theses, "{types}");
        assert_eq!(!found(&result, "tokens").is_empty(), tokens, "{types}");
    }
}

async fn handles_and_symbols_are_found_by_name(service: &Service) {
    let client = searcher(service).await;
    for query in ["%24RUN", "run", "RUN"] {
        let result = search(&client, &format!("q={query}")).await;
        assert_eq!(text(&result["tokens"][0], "symbol"), "$RUN", "{query}");
        assert_eq!(result["tokens"][0], client.get("/v1/tokens/RUN").await.ok(200));
    }
    for query in ["%40sbx_runner", "sbx_runner"] {
        let result = search(&client, &format!("q={query}")).await;
        assert_eq!(text(&result["profiles"][0], "handle"), "@sbx_runner", "{query}");
    }
}

async fn another_projects_rows_are_never_found(service: &Service) {
    let (mine, other) = (searcher(service).await, searcher(service).await);
    let live = service.project().await.live().await;
    let id = post(&mine, "isolatedword").await;
    until_found(&mine, "q=isolatedword", &id).await;
    for client in [&other, &live] {
        let result = search(client, "q=isolatedword").await;
        assert!(found(&result, "theses").is_empty());
        let result = search(client, "q=finder%20OR%20look").await;
        assert!(found(&result, "profiles").is_empty() && found(&result, "tokens").is_empty());
    }
}

async fn malformed_queries_are_named(service: &Service) {
    let client = searcher(service).await;
    for query in ["", "q=", "q=%22open", "q=OR", "q=-run", "q=a%20OR"] {
        let answer = client.get(&format!("/v1/search?{query}")).await;
        assert_eq!(answer.error(422, "VALIDATION_FAILED")["param"], "q", "{query}");
    }
    for (query, param) in [("limit=51", "limit"), ("types=users", "types"), ("sort=likes_desc", "sort")] {
        let answer = client.get(&format!("/v1/search?q=run&{query}")).await;
        assert_eq!(answer.error(422, "VALIDATION_FAILED")["param"], param);
    }
    let project = service.project().await;
    let key = project.key(Environment::Test, &["theses:read"]).await;
    key.client.get("/v1/search?q=run").await.error(403, "INSUFFICIENT_SCOPE");
}

async fn the_window_spares_the_sandbox(service: &Service) {
    let project = service.project_on("day").await;
    let (client, all) = (project.test().await, searcher(service).await);
    let oldest = "/v1/theses?sort=created_at_asc&limit=1";
    let oldest = all.get(oldest).await.ok(200)["data"][0].take();
    let words: Vec<&str> = text(&oldest, "text").split(|c: char| !c.is_alphanumeric()).collect();
    let phrase = format!("q=%22{}%22", words[..3].join("%20"));
    assert!(found(&search(&client, &phrase).await, "theses").contains(&text(&oldest, "id")), "{phrase}");
    let by_likes = async |client: &Client| {
        let answer = eventually("the index is there", SOON, async || {
            let answer = client.get("/v1/theses?sort=likes_desc&limit=100").await;
            (answer.status != 503).then_some(answer)
        });
        answer.await.ok(200)["data"].take()
    };
    assert_eq!(by_likes(&client).await, by_likes(&all).await);
    // The project's own theses are cut off.
    let on = token("solana", "SpareMint", "SPARE");
    let post = async |id: &str, age_ms: i64| {
        let posted = thesis(id, &author("u-spare", "spare"), &on, "sparedword", now_ms() - age_ms);
        service.post(&project.dataset(), posted).await
    };
    let (_, young) = (post("spare-1", 25 * 3_600_000).await, post("spare-2", 3_600_000).await);
    until_found(&client, "q=sparedword", &young).await;
    assert_eq!(found(&search(&client, "q=sparedword").await, "theses"), [young]);
}

async fn likes_order_the_sandbox_and_pages_follow_each_other(service: &Service) {
    let client = searcher(service).await;
    let unliked = post(&client, "nobody likes this").await;
    let mut path = "/v1/theses?sort=likes_desc&limit=40".to_owned();
    let mut all = Vec::new();
    loop {
        // A replica whose index is behind, as on a busy machine, says so instead of answering from it.
        let page = client.search(&path).await.ok(200);
        all.extend(rows(&page).clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/theses?sort=likes_desc&limit=40&cursor={cursor}"),
            None => break,
        }
    }
    let place = |row: &Value| (row["likes"].as_i64(), text(row, "created_at").to_owned(), text(row, "id").to_owned());
    assert!(all.is_sorted_by(|a, b| place(a) > place(b)));
    assert!(all.len() > 100 && all[0]["likes"].as_i64() > Some(40));
    assert_eq!(all.last().map(|row| text(row, "id")), Some(unliked.as_str()));
}

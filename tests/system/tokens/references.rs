//! Which token a reference names, and the answer when it names several.

use serde_json::{Value, json};
use thesis_proto::v1::observation::Observed;

use super::{HOUR_MS, on_token};
use crate::harness::{
    Client, Service, assert_fields, ids,
    ingest::{author, revision, thesis, token},
    iso, now_ms, rows, text,
};

on_both_stores![
    every_reference_finds_the_token,
    a_reference_means_the_same_everywhere,
    a_symbol_on_several_chains_is_ambiguous,
    at_most_fifty_candidates_are_listed,
];

async fn every_reference_finds_the_token(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let run = on_token(&client, "RUN").await;
    let (id, address) = (text(&run, "id"), text(&run, "address"));
    for reference in [id, address, &format!("sandbox:{address}"), "$RUN", "%24RUN", "run", "$Run"] {
        assert_eq!(on_token(&client, reference).await, run, "{reference}");
        assert_eq!(on_token(&client, &format!("{reference}?chain=sandbox")).await, run, "{reference}");
        client.get(&format!("/v1/tokens/{reference}?chain=solana")).await.error(404, "TOKEN_NOT_FOUND");
        for operation in ["activity", "thesis-velocity"] {
            let found = on_token(&client, &format!("{reference}/{operation}")).await;
            assert_eq!(text(&found["token"], "id"), id, "{reference}");
        }
    }
    // Hexadecimal addresses compare without case, others as they are.
    let observed = [token("ethereum", "0xAbCd", "HEX"), token("solana", "MintAbc", "MINT")];
    let seen = observed.map(|token| revision(1, Observed::Token(token)));
    let results = service.ingest(&project.dataset(), seen.into()).await;
    for (reference, index) in [
        ("0xABCD", 0),
        ("0xabcd", 0),
        ("0XABCD", 0),
        ("ethereum:0xaBcD", 0),
        ("ethereum:0Xabcd", 0),
        ("hex", 0),
        ("MintAbc", 1),
        ("solana:MintAbc", 1),
    ] {
        assert_eq!(on_token(&client, reference).await["id"], results[index].id, "{reference}");
    }
    for reference in ["mintabc", "ethereum:MintAbc", "solana:0xabcd", "tk_unknown", "$NOTHING", "%F0%9F%9A%80"] {
        for operation in ["", "/activity", "/thesis-velocity"] {
            client.get(&format!("/v1/tokens/{reference}{operation}")).await.error(404, "TOKEN_NOT_FOUND");
        }
    }
}

async fn a_reference_means_the_same_everywhere(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    // A symbol like an id, an address like another's symbol, and an address with colons.
    let tokens = [
        token("ethereum", "0xAB01", "tk_x"),
        token("solana", "tk_mint", "PLAIN"),
        token("sui", "0x2::sui::SUI", "COIN"),
        token("solana", "OtherMint", "0X2::SUI::SUI"),
    ];
    let by = author("u-ref", "ref");
    let mut made = Vec::new();
    for (number, on) in tokens.iter().enumerate() {
        made.push(service.post(&dataset, thesis(&format!("ref-{number}"), &by, on, "x", now_ms())).await);
    }
    for (reference, index) in [
        ("tk_x", 0),
        ("TK_X", 0),
        ("$tk_x", 0),
        ("0XAB01", 0),
        ("ethereum:0Xab01", 0),
        ("tk_mint", 1),
        ("solana:tk_mint", 1),
        ("sui:0x2::sui::SUI", 2),
        ("$coin", 2),
        ("$0x2::sui::sui", 3),
    ] {
        let listed = client.all(&format!("/v1/theses?token={reference}")).await;
        assert_eq!(ids(&listed), [&*made[index]], "{reference}");
        let on = &listed[0]["token"]["id"];
        assert_eq!(on_token(&client, reference).await["id"], *on, "{reference}");
        let events = client.all(&format!("/v1/events?types=thesis.created&token={reference}")).await;
        let told: Vec<&str> = events.iter().map(|event| text(&event["data"], "thesis_id")).collect();
        assert_eq!(told, [&*made[index]], "{reference}");
        let asked = json!({"handle": "ref", "token": reference, "created_after": iso(now_ms() - HOUR_MS)});
        assert_eq!(client.post("/v1/verify/thesis", &asked).await.ok(200)["thesis_id"], made[index], "{reference}");
    }
    // A look-up takes the first reading that exists; an event matches by any reading.
    let address = "0x2::sui::SUI";
    assert_eq!(ids(&client.all(&format!("/v1/theses?token={address}")).await), [&*made[2]]);
    assert_eq!(on_token(&client, address).await["symbol"], "$COIN");
    assert_eq!(client.all(&format!("/v1/events?types=thesis.created&token={address}")).await.len(), 2);
    // A reference that names nothing selects nothing; an event filter refuses it.
    for nothing in ["$", ":a", "a:"] {
        assert!(client.all(&format!("/v1/theses?token={nothing}")).await.is_empty());
        client.get(&format!("/v1/tokens/{nothing}")).await.error(404, "TOKEN_NOT_FOUND");
        client.get(&format!("/v1/events?token={nothing}")).await.invalid(&["token"]);
    }
}

async fn assert_ambiguous(service: &Service, dataset: &str, client: &Client) {
    let post = async |chain: &str, address: &str| {
        let by = author("twin-author", "twin_author");
        service
            .post(dataset, thesis(&format!("twin-{chain}"), &by, &token(chain, address, "TWIN"), "x", now_ms()))
            .await
    };
    let on_solana = post("solana", "TwinMint").await;
    let alone = on_token(client, "TWIN").await;
    let on_ethereum = post("ethereum", "0x7717").await;
    let twins = [on_token(client, "twin?chain=solana").await, on_token(client, "$TWIN?chain=ethereum").await];
    assert_eq!(twins[0], alone);
    assert_ne!(twins[0]["id"], twins[1]["id"]);
    let mut candidates = twins.each_ref().map(|token| {
        let fields = ["id", "symbol", "name", "chain", "address"];
        Value::Object(fields.map(|field| (field.to_owned(), token[field].clone())).into_iter().collect())
    });
    candidates.sort_by_key(|candidate| text(candidate, "id").to_owned());
    for reference in ["TWIN", "$twin"] {
        for operation in ["", "/activity", "/thesis-velocity"] {
            let path = format!("/v1/tokens/{reference}{operation}");
            let error = client.get(&path).await.error(409, "AMBIGUOUS_TOKEN");
            assert_fields(&error["details"], &["candidates"]);
            let mut listed = error["details"]["candidates"].as_array().unwrap().clone();
            listed.sort_by_key(|candidate| text(candidate, "id").to_owned());
            assert_eq!(listed, candidates, "{path}");
            client.get(&format!("{path}?chain=solana")).await.ok(200);
            client.get(&format!("{path}?chain=base")).await.error(404, "TOKEN_NOT_FOUND");
        }
    }
    for reference in ["TwinMint", "solana:TwinMint", text(&alone, "id")] {
        assert_eq!(on_token(client, reference).await["id"], alone["id"]);
    }
    // A list has room for both.
    let both = client.all("/v1/theses?token=TWIN").await;
    assert_eq!(both.len(), 2);
    assert!(ids(&both).contains(&&*on_solana) && ids(&both).contains(&&*on_ethereum));
    assert_eq!(ids(&client.all("/v1/theses?token=TWIN&chain=ethereum").await), [on_ethereum]);
}

async fn a_symbol_on_several_chains_is_ambiguous(service: &Service) {
    let project = service.project().await;
    assert_ambiguous(service, "live", &project.live().await).await;
    // A symbol that is ambiguous in live data is unknown to a test key, until its own data has it.
    let test = project.test().await;
    test.get("/v1/tokens/TWIN").await.error(404, "TOKEN_NOT_FOUND");
    assert_ambiguous(service, &project.dataset(), &test).await;
    // A test token with a sandbox token's symbol makes it ambiguous too.
    let seen = revision(1, Observed::Token(token("solana", "RunMint", "RUN")));
    service.learn(&project.dataset(), seen).await;
    test.get("/v1/tokens/RUN").await.error(409, "AMBIGUOUS_TOKEN");
    assert_eq!(on_token(&test, "RUN?chain=sandbox").await["chain"], "sandbox");
}

async fn at_most_fifty_candidates_are_listed(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let everywhere = |from: usize, to: usize| {
        let tokens = (from..to).map(|number| token(&format!("chain{number}"), "Mint", "EVERY"));
        tokens.map(|token| revision(1, Observed::Token(token))).collect()
    };
    service.ingest(&project.dataset(), everywhere(0, 50)).await;
    let candidates = async || {
        let error = client.get("/v1/tokens/EVERY").await.error(409, "AMBIGUOUS_TOKEN");
        let listed = error["details"]["candidates"].as_array().unwrap().clone();
        assert!(listed.iter().all(|candidate| candidate["symbol"] == "$EVERY"), "{error}");
        listed.len()
    };
    // As many as fit into the header that carries them over gRPC.
    assert!((15..=50).contains(&candidates().await));
    assert!(rows(&client.get("/v1/theses?token=EVERY").await.ok(200)).is_empty());
    service.ingest(&project.dataset(), everywhere(50, 52)).await;
    assert!((15..=50).contains(&candidates().await));
    client.get("/v1/theses?token=EVERY").await.invalid(&["token"]);
    client.get("/v1/theses?token=EVERY&chain=chain51").await.ok(200);
    on_token(&client, "EVERY?chain=chain51").await;
}

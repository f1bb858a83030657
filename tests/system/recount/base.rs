//! The rows of the sandbox from the start, read once by a key with no data of its own.

use serde_json::Value;

use super::{
    customer::Customer,
    world::{Profile, SANDBOX, Thesis, Token, World},
};
use crate::harness::{text, time};

/// The counts in a token's row.
const COUNTS: [&str; 4] = ["thesis_count", "unique_thesis_authors", "recent_thesis_count", "last_activity_at"];

/// Takes the sandbox's fixtures into the world.
pub(super) async fn take_in(world: &mut World, customer: &Customer) {
    let client = &customer.caller.rest;
    let theses = client.all("/v1/theses?sort=created_at_asc&limit=100").await;
    let rows = &mut world.datasets[SANDBOX];
    for number in 1..=8 {
        let upstream_id = format!("sbx_{number}");
        let row = client.get(&format!("/v1/profiles/{upstream_id}")).await.ok(200);
        let profile = Profile { upstream_id, age: None, row };
        rows.profiles.push(profile);
    }
    for thesis in theses {
        let (profile, token) = (text(&thesis["profile"], "id"), text(&thesis["token"], "id"));
        if rows.token(token).is_none() {
            let mut row = client.get(&format!("/v1/tokens/{token}")).await.ok(200);
            row.as_object_mut().expect("a token").retain(|field, _| !COUNTS.contains(&field.as_str()));
            rows.tokens.push(Token { age: None, row });
        }
        let taken = Thesis {
            dataset: SANDBOX,
            upstream_id: String::new(),
            id: text(&thesis, "id").to_owned(),
            profile: profile.to_owned(),
            token: token.to_owned(),
            text: text(&thesis, "text").to_owned(),
            likes: thesis["likes"].as_i64(),
            replies: thesis["replies"].as_i64(),
            created_at: time(&thesis, "created_at"),
            updated_at: time(&thesis, "updated_at"),
            version: 0,
            engagement: 0,
            deleted: false,
        };
        let profile = rows.profile(profile).expect("one of the eight").row.clone();
        let token = rows.token(token).expect("just read").row.clone();
        rows.owe_created(&taken, &profile, &token, None);
        rows.owed.back_mut().expect("just owed")["created_at"] = Value::clone(&thesis["created_at"]);
        rows.theses.push(taken);
    }
}

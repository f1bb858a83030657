//! Keys that are rolled: the new one works at once, and the old one until its end.

use thesis_proto::{
    error::ErrorCode,
    time::from_millis,
    v1::{self, Environment},
};

use super::everywhere;
use crate::harness::{Service, now_ms, person::refused};

on_both_stores![a_key_is_rolled_with_an_overlap];

async fn a_key_is_rolled_with_an_overlap(service: &Service) {
    let (owner, organization) = service.owner().await;
    let project = owner.project(&organization, "Hive").await.id;
    let (old, raw) = owner.key(&project, Environment::Test).await;
    let roll = |end: i64| v1::RollKeyRequest {
        id: old.id.clone(),
        ends_at: Some(from_millis(end)),
        ..v1::RollKeyRequest::default()
    };
    refused(owner.ask().roll_key(roll(now_ms() + 40 * 86_400_000)).await, ErrorCode::ValidationFailed);
    let rolled = owner.ask().roll_key(roll(now_ms() + 3_600_000)).await.unwrap().into_inner();
    let (new, replaced) = (rolled.api_key.unwrap(), rolled.replaced.unwrap());
    assert_eq!((&new.name, &new.scopes, &replaced.id), (&old.name, &old.scopes, &old.id));
    assert!(new.expires_at.is_none() && replaced.expires_at.is_some() && new.id != old.id);
    for key in [&raw, &rolled.key] {
        everywhere(service, key, "both work", |answer| answer.status == 200).await;
    }
    // Without an overlap the old key ends at once.
    owner.ask().roll_key(roll(now_ms())).await.unwrap();
    everywhere(service, &raw, "the old one has ended", |answer| answer.status == 401).await;
    everywhere(service, &rolled.key, "the new one goes on", |answer| answer.status == 200).await;
    refused(owner.ask().roll_key(roll(now_ms())).await, ErrorCode::ChangedMeanwhile);
    let actions = owner.audit(&organization).await;
    assert_eq!(actions.iter().filter(|entry| entry.action == "key.rolled").count(), 2);
}

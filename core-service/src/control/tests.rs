//! A change at one replica acts on the other; and a replica that cannot learn of it serves nothing.

use thesis_proto::{error::ErrorCode, v1};

use super::*;
use crate::{
    access::gate::{RefusedCall, RequestMeta},
    domain::{account::Actor, operation::Operation},
    operations::admin::{
        change_project::{archive_project, withdraw_project},
        revoke_key::revoke_key,
        set_organization_plan::set_organization_plan,
    },
    service::Core,
    tests::harness::{LIVE_KEY, ManualClock, SharedMemory, TEST_KEY, core},
};

async fn two() -> (Arc<ManualClock>, Arc<SharedMemory>, [Arc<Core>; 2]) {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let one = core(store.clone(), &clock, 1).await;
    let other = core(store.clone(), &clock, 2).await;
    (clock, store, [one, other])
}

/// The code that a key's request is refused with, if it is.
fn refused(core: &Arc<Core>, raw: &str) -> Option<ErrorCode> {
    let meta = RequestMeta { authorization: Some(format!("Bearer {raw}").into()), ..RequestMeta::default() };
    core.gate.admit(meta, Operation::ListTheses).err().map(|refused| refused.error.api.code)
}

#[tokio::test]
async fn a_change_at_one_replica_acts_on_the_other() {
    let (_clock, _store, [one, other]) = two().await;
    let project = other.shared.control.state().projects().next().unwrap().id.clone();
    let organization = other.shared.control.state().organizations().next().unwrap().id.clone();
    let key = other.shared.control.state().keys().find(|key| !key.live).unwrap().id.clone();
    let operator = Actor::operator(None);
    let plan = v1::SetOrganizationPlanRequest { id: organization.clone(), plan: "free".to_owned() };
    let follow = async || other.shared.control.catch_up().await.unwrap();
    assert_eq!((refused(&other, TEST_KEY), refused(&other, LIVE_KEY)), (None, None));

    set_organization_plan(&one, &operator, &plan).await.unwrap();
    follow().await;
    assert_eq!(other.shared.control.state().organization(&organization).unwrap().plan, "free");
    withdraw_project(&one, &operator, &v1::WithdrawProjectRequest { id: project.clone(), reason: None }).await.unwrap();
    follow().await;
    assert_eq!((refused(&other, TEST_KEY), refused(&other, LIVE_KEY)), (None, Some(ErrorCode::LiveAccessNotApproved)));
    revoke_key(&one, &operator, &v1::RevokeKeyRequest { id: key }).await.unwrap();
    follow().await;
    assert_eq!(refused(&other, TEST_KEY), Some(ErrorCode::ApiKeyRevoked));
    archive_project(&one, &operator, &v1::ArchiveProjectRequest { id: project }).await.unwrap();
    follow().await;
    assert_eq!(refused(&other, LIVE_KEY), Some(ErrorCode::ProjectArchived));
}

#[tokio::test]
async fn a_replica_that_cannot_follow_for_five_seconds_serves_nothing_until_it_can() {
    let (clock, store, [one, other]) = two().await;
    let mut current = one.shared.control.current();
    let outdated = async |refused: RefusedCall| {
        let RefusedCall { error, rate, .. } = refused;
        assert_eq!((error.api.code, error.api.retry_after, rate), (ErrorCode::ServiceUnavailable, Some(1), None));
    };
    one.shared.control.catch_up().await.unwrap();
    store.set_away(true);
    clock.advance(CURRENT_MS);
    assert_eq!(refused(&one, TEST_KEY), None);
    clock.advance(1);
    let error = one.gate.admit(RequestMeta::default(), Operation::GetMe).err();
    outdated(error.unwrap()).await;
    current.wait_for(|current| !*current).await.unwrap();
    store.set_away(false);
    current.wait_for(|current| *current).await.unwrap();
    assert_eq!(refused(&one, TEST_KEY), None);
    other.shared.control.catch_up().await.unwrap();
    assert_eq!(refused(&other, TEST_KEY), None);
}

#[tokio::test]
async fn one_process_on_its_own_store_is_always_current() {
    let clock = ManualClock::new();
    let core = core(crate::tests::harness::memory(&clock), &clock, 1).await;
    clock.advance(CURRENT_MS * 2);
    assert_eq!(refused(&core, TEST_KEY), None);
}

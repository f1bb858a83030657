//! A change that has begun ends, whatever becomes of its caller.

use std::time::Duration;

use thesis_net::services::Trusted;
use tokio::time::timeout;

use super::*;
use crate::tests::harness::{self, ManualClock, SharedMemory, give_up};

fn call<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Trusted::default());
    request
}

#[tokio::test]
async fn a_change_goes_on_when_its_caller_gives_up() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let core = harness::core(store.clone(), &clock, 0).await;
    let api = Api::new(&core);
    let project = core.shared.control.state().projects().next().unwrap().clone();
    let key = core.shared.control.state().keys().next().unwrap().id.clone();

    let standing = store.hold().await;
    let organization = v1::CreateOrganizationRequest { name: "Hive".to_owned(), plan: None };
    give_up(api.create_organization(call(organization))).await;
    give_up(api.revoke_key(call(v1::RevokeKeyRequest { id: key.clone() }))).await;
    give_up(api.archive_project(call(v1::ArchiveProjectRequest { id: project.id.clone() }))).await;
    let user = v1::CreateUserRequest { email: "new@example.com".to_owned(), administrator: false };
    give_up(api.create_user(call(user))).await;
    drop(standing);

    let mut changes = core.shared.control.changes();
    let all_done = || {
        let state = core.shared.control.state();
        state.organizations().any(|row| row.name == "Hive")
            && state.key(&key).is_some_and(|row| row.revoked_at.is_some())
            && state.project(&project.id).is_some_and(|row| row.archived)
            && state.people().invitations().any(|row| row.email.as_deref() == Some("new@example.com"))
    };
    let done = async {
        while !all_done() {
            changes.changed().await.unwrap();
        }
    };
    timeout(Duration::from_secs(10), done).await.expect("what has begun ends");
}

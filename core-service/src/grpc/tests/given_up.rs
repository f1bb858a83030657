//! The changes of public operations go on when their callers give up.

use std::time::Duration;

use thesis_proto::{
    metadata::AUTHORIZATION,
    v1::{self, test_data_service_server::TestDataService as _, webhook_service_server::WebhookService as _},
};
use tokio::time::timeout;
use tonic::Request;

use crate::{
    domain::dataset::Dataset,
    grpc::Api,
    tests::harness::{self, ManualClock, SharedMemory, TEST_KEY, give_up},
};

fn call<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {TEST_KEY}").parse().unwrap());
    request
}

async fn webhook(api: &Api) -> String {
    let (url, events) = (Some("https://1.1.1.1/".to_owned()), vec![v1::EventType::ThesisCreated.into()]);
    let new = v1::CreateWebhookRequest { url, events, ..v1::CreateWebhookRequest::default() };
    api.create_webhook(call(new)).await.unwrap().into_inner().webhook.unwrap().id
}

#[tokio::test]
async fn a_public_change_goes_on_when_its_caller_gives_up() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let core = harness::core(store.clone(), &clock, 0).await;
    let api = Api::new(&core);
    let [changed, deleted] = [webhook(&api).await, webhook(&api).await];
    let project = core.shared.control.state().webhook(&changed).unwrap().project_id.clone();
    let (_place, mut claims) = core.dispatcher.join(8);

    let standing = store.hold().await;
    let description = Some("changed".to_owned());
    let update = v1::UpdateWebhookRequest { id: changed.clone(), description, ..v1::UpdateWebhookRequest::default() };
    give_up(api.update_webhook(call(update))).await;
    give_up(api.rotate_webhook_secret(call(v1::RotateWebhookSecretRequest { id: changed.clone() }))).await;
    give_up(api.delete_webhook(call(v1::DeleteWebhookRequest { id: deleted.clone() }))).await;
    give_up(webhook(&api)).await;
    give_up(api.test_webhook(call(v1::TestWebhookRequest { id: changed.clone() }))).await;
    let thesis = v1::CreateTestThesisRequest {
        handle: Some("writer".to_owned()),
        token: Some("HIVE".to_owned()),
        text: Some("said once".to_owned()),
    };
    give_up(api.create_test_thesis(call(thesis))).await;
    drop(standing);

    let mut changes = core.shared.control.changes();
    let all_done = || {
        let state = core.shared.control.state();
        let row = state.webhook(&changed).unwrap();
        row.description.as_deref() == Some("changed")
            && row.old_secret.is_some()
            && state.webhook(&deleted).is_none()
            && state.webhooks(&project, false).count() == 2
    };
    let done = async {
        while !all_done() {
            changes.changed().await.unwrap();
        }
        let mut position = core.datasets.position(&Dataset::of_project(&project)).await.unwrap();
        drop(position.wait_for(|position| *position > 0).await.unwrap());
        while !claims.recv().await.unwrap().delivery.is_test {}
    };
    timeout(Duration::from_secs(10), done).await.expect("what has begun ends");
}

//! The embedded store on a disk that is full for a while.

use futures::TryStreamExt as _;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{
        self, admin_service_server::AdminService as _, ingest_service_server::IngestService as _,
        test_data_service_server::TestDataService as _, thesis_service_server::ThesisService as _,
        webhook_service_server::WebhookService as _,
    },
};
use tonic::{Response, Status};

use super::{
    judge,
    observations::thesis,
    requests::{public, service},
    world::World,
    world_store::{StoreKind, WorldStore},
};
use crate::{grpc::Api, tests::faulty::Fault};

fn disk_of(world: &World) -> crate::store::embedded::tests::disk::Disk {
    let WorldStore::Embedded(disk, _) = &world.store else { panic!("no disk") };
    disk.clone()
}

fn refused<T>(answer: Result<Response<T>, Status>) {
    let error = ApiError::from_status(&answer.err().expect("there is no room for this"));
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    assert!(error.retry_after.is_some());
}

fn new_thesis(text: &str) -> v1::CreateTestThesisRequest {
    v1::CreateTestThesisRequest {
        handle: Some("full".to_owned()),
        token: Some("FULL".to_owned()),
        text: Some(text.to_owned()),
    }
}

async fn listed(api: &Api) -> usize {
    let message = v1::ListThesesRequest { token: Some("FULL".to_owned()), ..v1::ListThesesRequest::default() };
    api.list_theses(public(message, None)).await.unwrap().into_inner().data.len()
}

/// Counts the parts of an export.
async fn exported(api: &Api) -> usize {
    let message = v1::ExportDatasetRequest { dataset: "sandbox".to_owned() };
    let parts = api.export_dataset(service(message)).await.unwrap().into_inner();
    parts.try_collect::<Vec<_>>().await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let mut world = World::base(StoreKind::Embedded).await;
    let api = Api::new(&world.core().await);
    let disk = disk_of(&world);
    let mut written = 0;
    // The disk is full immediately, or in the middle of a write.
    for room in [0, 2, 5, 9] {
        let before = api.create_test_thesis(public(new_thesis("before"), None)).await.unwrap();
        world.idle().await;
        written += 1;
        disk.room(room);
        // The little room left is soon used up.
        for _ in 0..10 {
            drop(
                api.ingest(service(v1::IngestRequest {
                    dataset: "live".to_owned(),
                    observations: vec![thesis(&format!("fills-{room}"), 1)],
                }))
                .await,
            );
        }
        for _ in 0..3 {
            refused(api.create_test_thesis(public(new_thesis("late"), Some(&format!("key {room}")))).await);
            let webhook = v1::CreateWebhookRequest {
                url: Some("https://1.1.1.1/full".to_owned()),
                events: vec![1],
                ..v1::CreateWebhookRequest::default()
            };
            refused(api.create_webhook(public(webhook, None)).await);
            let observed = vec![thesis(&format!("seen-{room}"), 1)];
            refused(
                api.ingest(service(v1::IngestRequest { dataset: "live".to_owned(), observations: observed })).await,
            );
            assert_eq!(listed(&api).await, written);
            let id = before.get_ref().result.as_ref().unwrap().thesis.as_ref().unwrap().id.clone();
            api.get_thesis(public(v1::GetThesisRequest { id }, None)).await.unwrap();
            assert!(exported(&api).await > 0, "a copy is wanted most now");
            assert!(api.core.shared.backend.check().await.is_err(), "and it says so");
        }
        disk.room(i64::MAX);
        // The process continues.
        world.create_thesis(&format!("room again {room}"), "full", "FULL").await;
        written += 1;
        assert_eq!(listed(&api).await, written);
        assert!(api.core.shared.backend.check().await.is_ok());
    }
    judge(&mut world).await;
    world.stop();
    world.process.end();
    world.store.end(Fault::PowerLoss, None, &world.clock.clone());
    world.settle().await;
    super::recount::recount(&world).await;
}

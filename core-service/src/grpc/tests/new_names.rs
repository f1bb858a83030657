//! Test theses by a handle that no profile has yet.

use thesis_proto::{
    metadata::AUTHORIZATION,
    v1::{self, test_data_service_server::TestDataService as _},
};
use tonic::Request;

use crate::{
    domain::dataset::View,
    grpc::Api,
    tests::harness::{self, ManualClock, SharedMemory, TEST_KEY},
};

#[tokio::test]
async fn requests_that_introduce_one_handle_at_once_show_the_same_author() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let core = harness::core(store.clone(), &clock, 0).await;
    let api = Api::new(&core);
    let post = async |handle: &str| {
        let mut request = Request::new(v1::CreateTestThesisRequest {
            handle: Some(handle.to_owned()),
            token: Some("FRESH".to_owned()),
            text: Some(format!("by {handle}")),
        });
        request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {TEST_KEY}").parse().unwrap());
        let created = api.create_test_thesis(request).await.unwrap().into_inner();
        created.result.unwrap().thesis.unwrap().profile.unwrap()
    };
    let standing = store.hold().await;
    let release = async {
        tokio::task::yield_now().await;
        drop(standing);
    };
    let (one, other, ()) = tokio::join!(post("Newcomer"), post("NEWCOMER"), release);
    let project = core.shared.control.state().projects().next().unwrap().id.clone();
    let (_, stored) = core.shared.theses.profile(&View::test(&project), &one.id).await.unwrap().unwrap();
    assert_eq!([&one.handle, &other.handle], [&stored.handle; 2]);
    assert_eq!(one.id, other.id);
}

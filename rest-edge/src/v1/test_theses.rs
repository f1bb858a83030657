//! Test data of a project.

use http::{Method, StatusCode};
use thesis_proto::{json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::Route,
};

const CREATE: &[Param] = &[
    Param::required("handle", Kind::Text(1, 41), "Author; a new handle becomes a test profile of the project"),
    Param::required("token", Kind::Text(1, 140), "Symbol; a new one becomes a test token of the project"),
    Param::required("text", Kind::Text(1, 2000), "The thesis"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/test/theses", "TestDataService/CreateTestThesis", |edge, call| {
            Box::pin(create(edge, call))
        })
        .named("createTestThesis", "Test data", "Creates a thesis that only the project sees, and its event.")
        .body(CREATE)
        .answers::<json::TestThesisResult<'_>>(201)
        .fails(&[404, 409]),
    ]
}

async fn create(edge: &Context, call: &Call) -> Answer {
    let mut fields = call.fields()?;
    let request = v1::CreateTestThesisRequest {
        handle: fields.text("handle"),
        token: fields.text("token"),
        text: fields.text("text"),
    };
    call.tell(fields.unread());
    let (told, answer, _) = edge.core.test_data.create_test_thesis(call.request(request)).await?.into_parts();
    let result = answer.result.ok_or_else(Failure::incomplete)?;
    json(StatusCode::CREATED, &told, &json::TestThesisResult::from(&result))
}

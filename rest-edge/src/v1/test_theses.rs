//! Test data of a project.

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::{Route, route},
};

const CREATE: &[Param] = &[
    Param::required("handle", Kind::Text(1, 41), "Author; a new handle becomes a test profile of the project"),
    Param::required("token", Kind::Text(1, 140), "Symbol; a new one becomes a test token of the project"),
    Param::required("text", Kind::Text(1, 2000), "The thesis"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(POST, "/v1/test/theses", "TestDataService/CreateTestThesis", create)
            .named("createTestThesis", "Test data", "Creates a thesis that only the project sees, and its event.")
            .about(
                "For test keys only; a live key gets 403 `TEST_KEY_REQUIRED`. The thesis and its `thesis.created` \
                 event, with `test` true, are seen by the project's test keys alone, in lists, searches, streams \
                 and webhooks. A handle or a symbol of the sandbox refers to the shared profile or token; a new \
                 one becomes a test profile or a test token of the project. A project keeps the newest test theses, as \
                 many as its plan allows; older ones are deleted. It has at most that many test handles and that many \
                 test tokens; a new one beyond that is 422 `VALIDATION_FAILED` on `handle` or `token`.",
            )
            .needs(Some("theses:read"), "standard")
            .fails(&[ErrorCode::TestKeyRequired])
            .body("CreateTestThesis", CREATE)
            .answers::<json::TestThesisResult<'_>>(201),
    ]
}

async fn create(edge: &Context, call: &Call) -> Answer {
    let mut fields = call.fields()?;
    let request = v1::CreateTestThesisRequest {
        handle: fields.text("handle"),
        token: fields.text("token"),
        text: fields.text("text"),
    };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.test_data.create_test_thesis(call.request(request)).await?.into_parts();
    let result = answer.result.ok_or_else(Failure::incomplete)?;
    json(StatusCode::CREATED, &metadata, &json::TestThesisResult::from(&result))
}

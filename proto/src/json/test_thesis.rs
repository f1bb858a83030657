//! The answer to creating a test thesis.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Event, Thesis, constant, part};
use crate::v1;

/// A test thesis and its event.
#[derive(Debug, Serialize, ToSchema)]
pub struct TestThesisResult<'a> {
    #[schema(schema_with = constant::test_thesis)]
    object: &'static str,
    /// The thesis.
    thesis: Thesis<'a>,
    /// Its `thesis.created` event, with `test` true.
    event: Event<'a>,
}

impl<'a> From<&'a v1::TestThesisResult> for TestThesisResult<'a> {
    fn from(result: &'a v1::TestThesisResult) -> Self {
        Self { object: "test_thesis", thesis: part(&result.thesis), event: part(&result.event) }
    }
}

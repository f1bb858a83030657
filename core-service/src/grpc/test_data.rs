//! `TestDataService`.

use thesis_proto::v1::{self, test_data_service_server::TestDataService};
use tonic::{Request, Response, Status, async_trait};

use super::{Api, answer::change, fields::Fields};
use crate::{
    domain::{
        handle::{is_test_handle, is_test_symbol},
        operation::Operation,
    },
    error::Result as Outcome,
    operations::create_test_thesis::{NewTestThesis, create_test_thesis},
};

fn new_thesis(message: &v1::CreateTestThesisRequest) -> Outcome<NewTestThesis> {
    let mut fields = Fields::default();
    let handle = fields.required("handle", message.handle.as_deref(), 1..=41);
    let token = fields.required("token", message.token.as_deref(), 1..=140);
    let text = fields.required("text", message.text.as_deref(), 1..=2000);
    if !is_test_handle(handle) {
        fields.reject("handle", "must be letters, digits, `_`, `.`, `-` after an optional `@`");
    }
    if !is_test_symbol(token) {
        fields.reject("token", "must be letters, digits, `_`, `.`, `-` after an optional `$`");
    }
    fields.finish()?;
    Ok(NewTestThesis { handle: handle.to_owned(), token: token.to_owned(), text: text.to_owned() })
}

#[async_trait]
impl TestDataService for Api {
    async fn create_test_thesis(
        &self,
        request: Request<v1::CreateTestThesisRequest>,
    ) -> Result<Response<v1::CreateTestThesisResponse>, Status> {
        let operation = Operation::CreateTestThesis;
        change(&self.core, operation, request, |core, call, message| async move {
            let new = new_thesis(&message)?;
            call.charge().await?;
            let create = async |seed: &str| {
                let result = create_test_thesis(&core, &call, &new, seed).await?;
                Ok(v1::CreateTestThesisResponse { result: Some(result) })
            };
            core.idempotency.once(&call, operation, &message, create).await
        })
        .await
    }
}

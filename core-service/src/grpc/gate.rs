//! `GateService`.

use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1::{self, gate_service_server::GateService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{admit, failed, meta, service_only},
};
use crate::domain::operation::Operation;

#[async_trait]
impl GateService for Api {
    async fn refuse(&self, request: Request<v1::RefuseRequest>) -> Result<Response<v1::RefuseResponse>, Status> {
        service_only(&self.core, &request)?;
        let operation = Operation::parse(&request.get_ref().operation)
            .ok_or_else(|| Status::invalid_argument("operation: is not a public operation"))?;
        let call = admit(&self.core, operation, meta(&self.core, &request)).await?;
        let given = request.into_inner().error.unwrap_or_default();
        let errors: Vec<FieldError> =
            given.errors.into_iter().map(|error| FieldError::new(error.param, error.message)).collect();
        let code = ErrorCode::parse(&given.code).unwrap_or(ErrorCode::InvalidRequest);
        let error = ApiError::fields(code, Some(given.message), &errors);
        Err(failed(&self.core, &call, &error.into(), operation))
    }
}

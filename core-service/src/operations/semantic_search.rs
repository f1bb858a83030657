//! Semantic search, which this version does not have. The gate has already refused the operation.

use thesis_proto::{error::ErrorCode, v1};

use crate::{
    access::gate::Call,
    domain::operation::Feature,
    error::{Error, Result},
    service::Core,
};

pub async fn semantic_search(
    _core: &Core,
    _call: &Call,
    _message: v1::SemanticSearchRequest,
) -> Result<v1::SemanticSearchResponse> {
    Err(Error::new(ErrorCode::FeatureDisabled, Feature::SemanticSearch.why_off()))
}

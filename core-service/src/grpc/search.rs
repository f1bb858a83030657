//! `SearchService`.

use thesis_proto::{
    error::ErrorCode,
    v1::{self, search_service_server::SearchService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{Api, answer::answer, fields::Fields, thesis::bounds};
use crate::{
    domain::operation::{Feature, Operation},
    error::{Error, Result as Outcome},
    operations::search::{SearchQuery, search},
    search::parse,
};

fn query(message: v1::SearchRequest) -> Outcome<SearchQuery> {
    let mut fields = Fields::default();
    fields.length("q", &message.q, 1..=512);
    let looked = parse(&message.q);
    if let Err(malformed) = &looked {
        fields.reject("q", malformed.0);
    }
    let known = |number: &i32| v1::SearchType::try_from(*number).is_ok_and(|kind| kind != v1::SearchType::Unspecified);
    if !message.types.iter().all(known) {
        fields.reject("types", "must be a list of theses, profiles and tokens");
    }
    let wanted = |kind: v1::SearchType| message.types.is_empty() || message.types.contains(&i32::from(kind));
    fields.optional_length("chain", message.chain.as_deref(), 1..=32);
    fields.optional_length("token", message.token.as_deref(), 1..=200);
    fields.optional_length("handle", message.handle.as_deref(), 1..=200);
    let newest = match v1::SearchSort::try_from(message.sort) {
        Ok(v1::SearchSort::Unspecified | v1::SearchSort::Relevance) => false,
        Ok(v1::SearchSort::CreatedAtDesc) => true,
        Err(_) => {
            fields.reject("sort", "must be relevance or created_at_desc");
            false
        }
    };
    let limit = fields.limit("limit", message.limit, 1..=50, 10);
    let (created_after, created_before) =
        bounds(&mut fields, message.created_after.as_ref(), message.created_before.as_ref());
    fields.finish()?;
    Ok(SearchQuery {
        looked: looked.map_err(Error::internal)?,
        theses: wanted(v1::SearchType::Theses),
        profiles: wanted(v1::SearchType::Profiles),
        tokens: wanted(v1::SearchType::Tokens),
        text: message.q,
        chain: message.chain,
        token: message.token,
        handle: message.handle,
        created_after,
        created_before,
        newest,
        limit,
    })
}

#[async_trait]
impl SearchService for Api {
    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        answer(&self.core, Operation::Search, request, |call, message| async move {
            let query = query(message)?;
            call.charge().await?;
            Ok(v1::SearchResponse { result: Some(search(&self.core, &call, query).await?) })
        })
        .await
    }

    async fn semantic_search(
        &self,
        request: Request<v1::SemanticSearchRequest>,
    ) -> Result<Response<v1::SemanticSearchResponse>, Status> {
        // The gate has already refused this operation, which this version does not have.
        answer(&self.core, Operation::SemanticSearch, request, |_, _| async move {
            Err(Error::new(ErrorCode::FeatureDisabled, Feature::SemanticSearch.why_off()))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_forms_are_named() {
        let fine = v1::SearchRequest { q: "run".to_owned(), ..v1::SearchRequest::default() };
        let taken = query(fine.clone()).unwrap();
        assert!(taken.theses && taken.profiles && taken.tokens && !taken.newest && taken.limit == 10);
        let tokens = query(v1::SearchRequest { types: vec![3], sort: 2, ..fine.clone() }).unwrap();
        assert!(!tokens.theses && !tokens.profiles && tokens.tokens && tokens.newest);
        let wrong = |change: fn(&mut v1::SearchRequest)| {
            let mut request = fine.clone();
            change(&mut request);
            query(request).unwrap_err().api.param.clone().unwrap_or_default()
        };
        assert_eq!(wrong(|request| request.q = String::new()), "q");
        assert_eq!(wrong(|request| request.q = "é".repeat(513)), "q");
        assert_eq!(wrong(|request| request.q = "\"open".to_owned()), "q");
        assert_eq!(wrong(|request| request.q = "a\0".to_owned()), "q");
        assert_eq!(wrong(|request| request.types = vec![0]), "types");
        assert_eq!(wrong(|request| request.types = vec![1, 9]), "types");
        assert_eq!(wrong(|request| request.sort = 3), "sort");
        assert_eq!(wrong(|request| request.limit = Some(51)), "limit");
        assert_eq!(wrong(|request| request.chain = Some(String::new())), "chain");
    }
}

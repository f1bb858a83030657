//! Creates a test thesis that only its project sees, with its event.

use std::sync::Arc;

use thesis_net::trace::{Kind as SpanKind, Span};
use thesis_proto::{
    reference::{handle_form, symbol_form},
    v1,
};

use super::{Core, theses::with_references};
use crate::{
    access::gate::Call,
    convert,
    domain::row::NewThesis,
    domain::{
        dataset::{Dataset, View},
        entry::Kind,
        handle, id,
        row::{Profile, Thesis, Token},
    },
    error::{Error, Result},
    sandbox::fixtures::CHAIN,
};

/// A test thesis to create; its shape was checked.
#[derive(Clone, Debug)]
pub struct NewTestThesis {
    /// With or without `@`.
    pub handle: String,
    /// With or without `$`.
    pub token: String,
    /// The text.
    pub text: String,
}

/// Creates a test thesis, named after the seed. Profiles and tokens of the sandbox are referred to; others become the
/// project's own. The project's oldest theses beyond its plan's number are deleted after that.
///
/// # Errors
/// When the store does not answer.
pub async fn create_test_thesis(
    core: &Core,
    call: &Call,
    new: &NewTestThesis,
    seed: &str,
) -> Result<v1::TestThesisResult> {
    let view = &call.caller.view;
    let dataset = Dataset::Project(call.caller.project.id.clone());
    let (in_sandbox, profile) = profile(core, call, view, &dataset, &new.handle).await?;
    let (token_in_sandbox, token) = token(core, call, view, &dataset, &new.token).await?;
    let id = id::derive("th_", &["test", seed]);
    let thesis = Thesis {
        id,
        profile_id: profile.id.clone(),
        token_id: token.id.clone(),
        chain: token.chain.clone(),
        text: new.text.clone(),
        created_at: call.now_ms,
        updated_at: call.now_ms,
        sandbox_profile: in_sandbox,
        sandbox_token: token_in_sandbox,
        ..Thesis::default()
    };
    let max_theses = Some(i64::from(call.caller.plan.test_theses));
    let trace = call.meta.trace.to_stored();
    let new = NewThesis { thesis, profile, token, test: true, at: None, trace, max_theses };
    let appending = Span::step(SpanKind::Internal, || "append".into());
    let written = core.datasets.create_thesis(&dataset, new).await?;
    drop(appending);
    let event = convert::entry::event(&dataset, &written.entry);
    let Some(Kind::ThesisCreated(created)) = written.entry.kind else {
        return Err(Error::internal("the log answered with another entry"));
    };
    let thesis = with_references(&core.shared.theses, &[(dataset, Arc::new(created.thesis))]).await?.pop();
    Ok(v1::TestThesisResult { thesis, event })
}

async fn profile(core: &Core, call: &Call, view: &View, dataset: &Dataset, given: &str) -> Result<(bool, Profile)> {
    if let Some(id) = core.shared.theses.profile_id_by_handle(view, given).await?
        && let Some((home, profile)) = core.shared.theses.profile(view, &id).await?
    {
        return Ok((home == Dataset::Sandbox, Profile::clone(&profile)));
    }
    let profile = Profile {
        id: id::derive("fp_", &[&dataset.to_string(), "test handle", &handle_form(given)]),
        handle: handle::with_at(given),
        first_seen_at: call.now_ms,
        updated_at: call.now_ms,
        ..Profile::default()
    };
    Ok((false, profile))
}

async fn token(core: &Core, call: &Call, view: &View, dataset: &Dataset, given: &str) -> Result<(bool, Token)> {
    let symbol = symbol_form(given);
    let known = core.shared.theses.token_ids_by_symbol(view, &symbol, Some(CHAIN), 1).await?;
    if let Some(id) = known.first()
        && let Some((home, token)) = core.shared.theses.token(view, id).await?
    {
        return Ok((home == Dataset::Sandbox, Token::clone(&token)));
    }
    let dataset = dataset.to_string();
    let token = Token {
        id: id::derive("tk_", &[&dataset, "test symbol", &symbol]),
        address: id::derive("test", &[&dataset, "test address", &symbol]),
        symbol,
        name: None,
        chain: CHAIN.to_owned(),
        first_seen_at: call.now_ms,
        updated_at: call.now_ms,
        ..Token::default()
    };
    Ok((false, token))
}

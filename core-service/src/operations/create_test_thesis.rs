//! Creates a test thesis that only its project sees, with its event. It refers to profiles and tokens of the sandbox.
//! Other names become the project's own, up to the plan's number of test theses. Afterwards the project's oldest theses
//! beyond that number are deleted.

use thesis_net::trace::{Span, SpanKind};
use thesis_proto::{
    reference::{handle_form, symbol_form},
    v1,
};

use super::fields::Fields;
use crate::{
    access::gate::Call,
    convert,
    domain::{
        dataset::Dataset,
        entry::{Kind, ThesisCreated},
        handle::{self, is_test_handle, is_test_symbol},
        id,
        row::{NewThesis, Profile, Thesis, Token},
    },
    error::{Error, Result},
    sandbox::fixtures::CHAIN,
    service::Core,
    tables::theses::RowReader,
};

pub async fn create_test_thesis(
    core: &Core,
    call: &Call,
    message: v1::CreateTestThesisRequest,
) -> Result<v1::CreateTestThesisResponse> {
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
    call.charge().await?;
    let perform = async |seed: &str| {
        let dataset = Dataset::of_project(&call.caller.project.id);
        let reader = core.shared.theses.reader(&call.caller.view).await?;
        // On a cluster each of them may take several reads, one after the other.
        let profile = profile(&reader, call, &dataset, handle);
        let token = self::token(&reader, call, &dataset, token);
        let ((profile_home, profile), (token_home, token)) = tokio::try_join!(profile, token)?;
        let id = id::derive("th_", &["test", seed]);
        if profile_home.is_none() || token_home.is_none() {
            check_new_names(core, call, &dataset, &id, [profile_home.is_none(), token_home.is_none()]).await?;
        }
        let thesis = Thesis {
            id,
            profile_id: profile.id.clone(),
            token_id: token.id.clone(),
            chain: token.chain.clone(),
            text: text.to_owned(),
            created_at: call.now_ms,
            updated_at: call.now_ms,
            sandbox_profile: profile_home == Some(Dataset::Sandbox),
            sandbox_token: token_home == Some(Dataset::Sandbox),
            ..Thesis::default()
        };
        let max_theses = Some(i64::from(call.caller.plan.test_theses));
        let trace = call.meta.trace.to_stored();
        let known = (profile_home.map(|_| profile.clone()), token_home.map(|_| token.clone()));
        let new = NewThesis { thesis, profile, token, test: true, at: None, trace, max_theses };
        let appending = Span::step(SpanKind::Internal, || "append".into());
        let written = core.datasets.create_thesis(&dataset, new).await?;
        drop(appending);
        let event = convert::entry::event(&dataset, &written.entry);
        let Some(Kind::ThesisCreated(created)) = written.entry.kind else {
            return Err(Error::internal("the log answered with another entry"));
        };
        let (profile, token) = references(core, call, known, &created).await?;
        let thesis = convert::row::thesis(&dataset, &created.thesis, &profile, &token);
        Ok(v1::CreateTestThesisResponse { result: Some(v1::TestThesisResult { thesis: Some(thesis), event }) })
    };
    core.idempotency.once(call, &message, perform).await
}

/// The author and the token of a new thesis as they are now: the known ones, or those that its entry introduces. If
/// another request has introduced them meanwhile, they are read.
async fn references(
    core: &Core,
    call: &Call,
    known: (Option<Profile>, Option<Token>),
    created: &ThesisCreated,
) -> Result<(Profile, Token)> {
    let (view, theses) = (&call.caller.view, &core.shared.theses);
    let missing = || Error::internal("a row that a thesis needs is missing");
    let profile = match known.0 {
        Some(profile) => profile,
        None if created.introduces_profile => created.profile.clone(),
        None => Profile::clone(&theses.profile(view, &created.profile.id).await?.ok_or_else(missing)?.1),
    };
    let token = match known.1 {
        Some(token) => token,
        None if created.introduces_token => created.token.clone(),
        None => Token::clone(&theses.token(view, &created.token.id).await?.ok_or_else(missing)?.1),
    };
    Ok((profile, token))
}

/// Refuses a new handle or token if the project already has the plan's number. The check precedes the append, so
/// concurrent requests may exceed the limit by their own number.
async fn check_new_names(
    core: &Core,
    call: &Call,
    dataset: &Dataset,
    thesis_id: &str,
    [is_new_handle, is_new_token]: [bool; 2],
) -> Result<()> {
    let limit = i64::from(call.caller.plan.test_theses);
    let (name, theses) = (dataset.to_string(), &core.shared.theses);
    let totals = theses.dataset_totals(&name).await?;
    let mut fields = Fields::default();
    if is_new_handle && totals.profiles >= limit {
        fields.reject("handle", format!("a project has at most {limit} test handles; use one of those it has"));
    }
    if is_new_token && totals.tokens >= limit {
        fields.reject("token", format!("a project has at most {limit} test tokens; use one of those it has"));
    }
    let checked = fields.finish();
    // The thesis exists if an earlier attempt of this request was written after the names were read here.
    if checked.is_err() && theses.theses(&[(name, thesis_id)]).await?.iter().any(Option::is_some) {
        return Ok(());
    }
    checked
}

/// Finds the profile with a handle and its dataset; none if the profile is new.
async fn profile(
    reader: &RowReader<'_>,
    call: &Call,
    dataset: &Dataset,
    given: &str,
) -> Result<(Option<Dataset>, Profile)> {
    let view = &call.caller.view;
    if let Some(id) = reader.profile_id_by_handle(view, given).await?
        && let Some((home, profile)) = reader.profile(view, &id).await?
    {
        return Ok((Some(home), Profile::clone(&profile)));
    }
    let profile = Profile {
        id: id::derive("fp_", &[&dataset.to_string(), "test handle", &handle_form(given)]),
        handle: handle::with_at(given),
        first_seen_at: call.now_ms,
        updated_at: call.now_ms,
        ..Profile::default()
    };
    Ok((None, profile))
}

/// Finds the token with a symbol and its dataset; none if the token is new.
async fn token(
    reader: &RowReader<'_>,
    call: &Call,
    dataset: &Dataset,
    given: &str,
) -> Result<(Option<Dataset>, Token)> {
    let (view, symbol) = (&call.caller.view, symbol_form(given));
    let known = reader.token_ids_by_symbol(view, &symbol, Some(CHAIN), 1).await?;
    if let Some(id) = known.first()
        && let Some((home, token)) = reader.token(view, id).await?
    {
        return Ok((Some(home), Token::clone(&token)));
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
    Ok((None, token))
}

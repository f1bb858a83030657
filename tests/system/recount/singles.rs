//! Single resources by every reference: theses, profiles, tokens with their counts, activity and velocity.

use thesis_proto::v1;

use super::{
    caller::{Ask, Failure, Outcome},
    customer::Customer,
    names::References,
    view::{View, found},
    world::{Token, World},
};
use crate::harness::text;

impl Customer {
    /// Reads a thesis by its id, of any dataset.
    pub(super) async fn one_thesis(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let theses = &world.datasets[References::of(view).dataset(&mut self.random)].theses;
        if theses.is_empty() {
            return;
        }
        let thesis = self.random.one_of(theses);
        let visible = view.theses().any(|other| other.id == thesis.id);
        let answer = self
            .expect(&Ask::Thesis(thesis.id.clone()), |now| {
                if !visible {
                    return Err(Failure::of("THESIS_NOT_FOUND"));
                }
                sight.may_read(thesis.dataset, thesis.created_at, now).map(|()| view.thesis_row(thesis))
            })
            .await;
        self.says_nothing(world, answer.found, Ask::Thesis("th_000000000000000000000000".to_owned())).await;
    }

    /// A row that exists for others, or did, gets the same answer as one that never existed. Near names depend on the
    /// name that was given: they are of rows that the key sees.
    pub(super) async fn says_nothing(&mut self, world: &World, found: Outcome, unknown: Ask) {
        let Err(failure) = found else { return };
        let names = self.view(world).names(&failure.code);
        for near in &failure.near {
            let seen = names.contains(near);
            assert!(seen, "{} was told {near}, which it does not see: {failure:?}", self.name);
        }
        if failure.code.ends_with("_NOT_FOUND") && failure.near.is_empty() {
            let never = self.ask(&unknown).await.0.expect_err("never issued");
            assert_eq!((failure.code, failure.text), (never.code, never.text), "{} asked {unknown:?}", self.name);
        }
    }

    /// Reads a profile by any reference.
    pub(super) async fn one_profile(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let references = References::of(view);
        let random = &mut self.random;
        let mut request = v1::GetProfileRequest::default();
        let id = match random.below(6) {
            0 => view.profile(request.id.insert(references.profile_id(random))).map(|it| text(&it.row, "id")),
            1 => view.by_handle(request.handle.insert(references.handle(random))),
            2 => view.by_upstream_id(request.upstream_user_id.insert(references.upstream_id(random))),
            _ => view.named(request.r#ref.insert(references.any_profile(random))),
        };
        let row = id.and_then(|id| view.profile(id)).map(|profile| profile.row.clone());
        let answer = self.expect(&Ask::Profile(request), |_| found(row.clone(), "PROFILE_NOT_FOUND")).await;
        let unknown = v1::GetProfileRequest { r#ref: Some("fp_unknown".to_owned()), ..Default::default() };
        self.says_nothing(world, answer.found, Ask::Profile(unknown)).await;
    }

    /// Reads a token, its activity or its velocity by any reference.
    pub(super) async fn one_token(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let references = References::of(view);
        let random = &mut self.random;
        let reference = references.any_token(random);
        let chain = random.maybe(35, |random| references.chain(random));
        let one = |row: &dyn Fn(&Token) -> serde_json::Value| -> Outcome {
            found(view.one_token(&reference, chain.as_deref())?.map(row), "TOKEN_NOT_FOUND")
        };
        let given = (reference.clone(), chain.clone());
        let answer = match random.below(3) {
            0 => {
                let ask = Ask::Token(v1::GetTokenRequest { r#ref: given.0, chain: given.1, as_of: None });
                self.expect(&ask, |now| one(&|token| view.token_row(token, now))).await
            }
            1 => {
                let recent = random.maybe(70, |random| random.between(1, 50).try_into().unwrap_or(10));
                let shown = recent.and_then(|recent: i32| usize::try_from(recent).ok()).unwrap_or(10);
                let ask = v1::GetTokenActivityRequest { r#ref: given.0, chain: given.1, recent, as_of: None };
                self.expect(&Ask::Activity(ask), |now| one(&|token| view.activity(token, shown, now))).await
            }
            _ => {
                let ask = v1::GetThesisVelocityRequest { r#ref: given.0, chain: given.1, as_of: None };
                let ask = Ask::Velocity(ask);
                self.expect(&ask, |now| one(&|token| rounded(view, token, now))).await
            }
        };
        let unknown = v1::GetTokenRequest { r#ref: "tk_unknown".to_owned(), ..v1::GetTokenRequest::default() };
        self.says_nothing(world, answer.found, Ask::Token(unknown)).await;
    }
}

fn rounded(view: View<'_>, token: &Token, now: i64) -> serde_json::Value {
    let mut row = view.velocity(token, now);
    if let Some(change) = row["change_pct"].as_f64() {
        row["change_pct"] = super::caller::rounded(change);
    }
    row
}

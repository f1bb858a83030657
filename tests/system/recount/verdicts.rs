//! Verification: every reason, every check.

use serde_json::{Value, json};
use thesis_proto::{
    time::{from_millis, to_millis},
    v1,
};

use super::{
    caller::{Ask, Failure, Outcome},
    customer::Customer,
    names::{References, bound, folded, part},
    view::{View, newest},
    world::{Thesis, World},
};
use crate::harness::{iso, now_ms, text};

fn recount(view: View<'_>, claim: &v1::VerifyThesisRequest, now: i64) -> Outcome {
    let from = claim.created_after.as_ref().map(to_millis).expect("a window");
    let to = claim.created_before.as_ref().map_or(now, to_millis);
    if to < from {
        return Err(Failure::of("VALIDATION_FAILED"));
    }
    // A requested bound is the same for all datasets.
    let from = view.sight.lower(Some(from), now)?.others;
    judge(view, claim, from, to, now)
}

fn judge(view: View<'_>, claim: &v1::VerifyThesisRequest, from: i64, to: i64, now: i64) -> Outcome {
    let mut verdict = json!({
        "object": "thesis_verification", "verified": false, "profile_id": null, "thesis_id": null, "created_at": null,
        "token": null, "reason": null, "livemode": view.sight.livemode(),
        "checks": {
            "identity": false, "token": false, "time_window": false, "thesis_exists": false, "not_deleted": false,
            "contains": claim.contains.as_ref().map(|_| false),
        },
        // What is pushed before each round is a feed that is up.
        "freshness": {
            "checked_at": iso(now), "upstream_synced_at": view.sight.livemode().then_some(true), "served_from": "cache",
        },
    });
    let ends = |mut verdict: Value, reason: &str, thesis: Option<&Thesis>| {
        verdict["reason"] = json!(reason);
        verdict["verified"] = json!(reason == "VERIFIED");
        verdict["thesis_id"] = json!(thesis.map(|thesis| &thesis.id));
        verdict["created_at"] = json!(thesis.map(|thesis| iso(thesis.created_at)));
        Ok(verdict)
    };
    let profile = match &claim.handle {
        Some(handle) => view.by_handle(handle),
        None => view.by_any_id(claim.profile_id.as_deref().unwrap_or_default()),
    };
    let Some(profile) = profile else { return ends(verdict, "PROFILE_NOT_FOUND", None) };
    verdict["profile_id"] = json!(profile);
    verdict["checks"]["identity"] = json!(true);
    let token = view.one_token(claim.token.as_deref().unwrap_or_default(), claim.chain.as_deref())?;
    let Some(token) = token else { return ends(verdict, "TOKEN_NOT_FOUND", None) };
    verdict["token"] = token.row["symbol"].clone();
    verdict["checks"]["token"] = json!(true);

    let posted = |thesis: &&Thesis| thesis.profile == profile && thesis.token == text(&token.row, "id");
    let ever: Vec<&Thesis> = view.ever().filter(posted).collect();
    let inside: Vec<&Thesis> = ever.iter().copied().filter(|it| (from..=to).contains(&it.created_at)).collect();
    let there: Vec<&Thesis> = inside.iter().copied().filter(|thesis| !thesis.deleted).collect();
    let holds = |text: &str| claim.contains.as_ref().is_none_or(|part| folded(text).contains(&folded(part)));
    let matching: Vec<&Thesis> = there.iter().copied().filter(|thesis| holds(&thesis.text)).collect();
    verdict["checks"]["thesis_exists"] = json!(!ever.is_empty());
    verdict["checks"]["time_window"] = json!(!inside.is_empty());
    verdict["checks"]["not_deleted"] = json!(!there.is_empty());
    if claim.contains.is_some() {
        verdict["checks"]["contains"] = json!(!matching.is_empty());
    }
    let named = [("VERIFIED", matching), ("TEXT_NOT_FOUND", there), ("THESIS_DELETED", inside)];
    let first = named.iter().find_map(|(reason, theses)| Some((*reason, newest(theses)?)));
    match first {
        Some((reason, thesis)) => ends(verdict, reason, Some(thesis)),
        None => ends(verdict, "NO_THESIS_IN_WINDOW", None),
    }
}

impl Customer {
    /// Has a claim verified, often one about a thesis that exists or existed.
    pub(super) async fn verify(&mut self, world: &World) {
        let sight = self.sight.clone();
        let view = sight.of(world);
        let references = References::of(view);
        let (random, now) = (&mut self.random, now_ms());
        let theses = &world.datasets[references.dataset(random)].theses;
        let about = (!theses.is_empty() && random.chance(75)).then(|| random.one_of(theses));
        let mut claim = v1::VerifyThesisRequest::default();
        match random.below(3) {
            0 => claim.handle = Some(references.handle(random)),
            _ => {
                let of = about.map(|thesis| thesis.profile.clone());
                claim.profile_id = Some(of.unwrap_or_else(|| references.any_profile(random)));
            }
        }
        let on = about.map(|thesis| thesis.token.clone()).filter(|_| random.chance(80));
        claim.token = Some(on.unwrap_or_else(|| references.any_token(random)));
        claim.chain = random.maybe(20, |random| references.chain(random));
        let at = |random: &mut super::random::Random| match about {
            Some(thesis) if random.chance(60) => thesis.created_at + random.between(-1, 1),
            _ => bound(random, world, now),
        };
        let (one, other) = (at(random), at(random));
        let ordered = if random.chance(95) { [one.min(other), one.max(other)] } else { [one, other] };
        claim.created_after = Some(from_millis(ordered[0]));
        claim.created_before = random.maybe(80, |_| from_millis(ordered[1]));
        claim.contains = random.maybe(50, |random| match about {
            Some(thesis) if random.chance(50) => thesis.text.to_uppercase(),
            _ => part(random),
        });
        self.expect(&Ask::Verify(claim.clone()), |now| recount(view, &claim, now)).await;
    }
}

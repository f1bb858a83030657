//! Replaces an API key: creates one with the same name, environment and scopes, and lets the old one end after an
//! overlap. Both are one change, so no key ends without its successor.

use thesis_proto::{
    error::{ErrorCode, FieldError},
    time::{is_time, to_millis},
    v1,
};

use crate::{
    access::rights,
    accounts::{Person, fields::refuse, sessions::demand_confirmation},
    control::ControlState,
    convert,
    domain::{
        account::Role,
        control::{ApiKey, ControlChange},
        id,
        window::DAY_MS,
    },
    error::{Error, Result},
    keys::key_ring::display_prefix,
    operations::admin::create_key::{created_before, demand_room, networks},
    service::Core,
};

/// Maximum overlap of the two keys, in milliseconds.
const MAX_OVERLAP_MS: i64 = 31 * DAY_MS;

/// Returns the key that is rolled, unless it has ended.
fn rolled<'a>(state: &'a ControlState, person: &Person, id: &str) -> Result<&'a ApiKey> {
    let key = rights::key(state, &person.actor, id, Role::Developer)?;
    let project = rights::project(state, &person.actor, &key.project_id, Role::Developer)?;
    rights::demand_in_use(project)?;
    if key.revoked_at.is_some() || key.expires_at.is_some_and(|end| end <= person.now_ms) {
        return Err(Error::new(ErrorCode::ChangedMeanwhile, "this key has ended; create another one"));
    }
    Ok(&**key)
}

/// Rolls a key, which is a sensitive change for a live one. The seed names the form, as in `create_key`.
pub async fn roll_key(
    core: &Core,
    person: &Person,
    message: &v1::RollKeyRequest,
    seed: Option<&str>,
) -> Result<v1::RollKeyResponse> {
    let (shared, now_ms) = (&core.shared, person.now_ms);
    let networks = networks(&message.allowed_addresses);
    let end = message.ends_at.as_ref().filter(|at| is_time(at)).map(to_millis);
    let end = end.filter(|end| (now_ms - MAX_OVERLAP_MS..=now_ms + MAX_OVERLAP_MS).contains(end));
    let rule = || FieldError::new("ends_at", "must be at most 31 days from now");
    refuse([end.is_none().then(rule), networks.as_ref().err().cloned()])?;
    // A time in the past ends the old key now.
    let (end, networks) = (end.unwrap_or_default().max(now_ms), networks.unwrap_or_default());
    shared.control.refresh().await?;
    let live = rights::key(&shared.control.state(), &person.actor, &message.id, Role::Developer)?.live;
    // Only after the rights are checked: nobody may learn whether a key of others is live, or exists.
    if live {
        demand_confirmation(person)?;
    }
    let ring = &shared.keys;
    let raw = seed.map_or_else(|| ring.new_api_key(live), |seed| ring.seeded_api_key(live, seed));
    let new_id = id::seeded("key_", seed, shared.ids.as_ref());
    let roll = |state: &ControlState| {
        let response = |new: &ApiKey, old: &ApiKey| v1::RollKeyResponse {
            api_key: Some(convert::control::api_key(new)),
            key: raw.clone(),
            replaced: Some(convert::control::api_key(old)),
        };
        if let Some(created) = created_before(state, &new_id, now_ms)? {
            let old = rights::key(state, &person.actor, &message.id, Role::Developer)?;
            return Ok((Vec::new(), response(&created, old)));
        }
        let before = rolled(state, person, &message.id)?;
        demand_room(state, &person.actor, &before.project_id)?;
        let old = ApiKey { expires_at: Some(before.expires_at.map_or(end, |at| at.min(end))), ..before.clone() };
        let new = ApiKey {
            id: new_id.clone(),
            prefix: display_prefix(&raw),
            hash: ring.key_hash(&raw).to_vec(),
            created_at: now_ms,
            allowed_addresses: networks.clone(),
            ..before.clone()
        };
        let response = response(&new, &old);
        Ok((vec![ControlChange::ApiKey(new), ControlChange::ApiKey(old)], response))
    };
    shared.control.change(person.actor.does("key.rolled"), roll).await
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;
    use thesis_proto::time::from_millis;

    use super::*;
    use crate::{
        accounts::sessions::CONFIRMED_MS,
        domain::account::Actor,
        tests::harness::{ManualClock, core, memory},
    };

    async fn member_of_first_project(core: &Core) -> (Person, String) {
        use crate::domain::account::{Member, User};

        let project = core.shared.control.state().projects().next().unwrap().clone();
        let now_ms = core.shared.clock.now_ms();
        let user = User { id: "usr_1".to_owned(), email: "ada@example.com".to_owned(), ..User::default() };
        let member = Member {
            organization_id: project.organization_id.clone(),
            user_id: user.id.clone(),
            role: Role::Developer.into(),
            ..Member::default()
        };
        let rows = vec![ControlChange::User(user.clone()), ControlChange::Member(member)];
        let fill = |_: &ControlState| Ok((rows.clone(), ()));
        core.shared.control.change(Actor::service().does("test.filled"), fill).await.unwrap();
        let person = Person {
            user: user.into(),
            session_id: "ses_1".to_owned(),
            actor: Actor { id: "usr_1".to_owned(), address: None, is_member: true },
            now_ms,
            confirmed_at: now_ms,
        };
        (person, project.id.clone())
    }

    #[tokio::test]
    async fn a_rolled_key_has_a_successor_and_ends_after_the_overlap() {
        let clock = ManualClock::new();
        let core = core(memory(&clock), &clock, 1).await;
        let (person, project_id) = member_of_first_project(&core).await;
        let old = ApiKey {
            id: "key_old".to_owned(),
            project_id,
            name: "server".to_owned(),
            hash: vec![1],
            scopes: vec!["theses:read".to_owned()],
            ..ApiKey::default()
        };
        let add = |_: &ControlState| Ok((vec![ControlChange::ApiKey(old.clone())], ()));
        core.shared.control.change(Actor::service().does("test.key"), add).await.unwrap();
        let request = |end: i64| v1::RollKeyRequest {
            id: "key_old".to_owned(),
            ends_at: Some(from_millis(end)),
            allowed_addresses: vec!["192.0.2.1".to_owned()],
            once: None,
        };
        let too_late = person.now_ms + MAX_OVERLAP_MS + 1;
        let unknown = v1::RollKeyRequest { ends_at: None::<Timestamp>, ..request(0) };
        for wrong in [request(too_late), unknown] {
            let error = roll_key(&core, &person, &wrong, None).await.unwrap_err();
            assert_eq!(error.api.param.as_deref(), Some("ends_at"));
        }
        let end = person.now_ms + DAY_MS;
        let first = roll_key(&core, &person, &request(end), Some("form")).await.unwrap();
        assert_eq!(roll_key(&core, &person, &request(end), Some("form")).await.unwrap(), first);
        let new = first.api_key.unwrap();
        assert_eq!((new.name.as_str(), &new.scopes, new.expires_at), ("server", &old.scopes, None));
        assert_eq!(new.allowed_addresses, ["192.0.2.1/32"]);
        let replaced = first.replaced.unwrap();
        assert_eq!(replaced.expires_at.as_ref().map(to_millis), Some(end));
        // A second roll of the old key does not extend its overlap.
        let again = roll_key(&core, &person, &request(end + DAY_MS), None).await.unwrap();
        assert_eq!(again.replaced.unwrap().expires_at.as_ref().map(to_millis), Some(end));
        let live = ApiKey { id: "key_live".to_owned(), live: true, hash: vec![2], ..old.clone() };
        let add = |_: &ControlState| Ok((vec![ControlChange::ApiKey(live.clone())], ()));
        core.shared.control.change(Actor::service().does("test.key"), add).await.unwrap();
        let request_live = v1::RollKeyRequest { id: live.id.clone(), ..request(end) };
        let late = Person { confirmed_at: person.now_ms - CONFIRMED_MS, ..person.clone() };
        let error = roll_key(&core, &late, &request_live, None).await.unwrap_err();
        assert_eq!(error.api.code, ErrorCode::ConfirmationRequired);
        roll_key(&core, &person, &request_live, None).await.unwrap();
        let stranger = Actor { id: "usr_2".to_owned(), ..late.actor.clone() };
        let error = roll_key(&core, &Person { actor: stranger, ..late }, &request_live, None).await.unwrap_err();
        assert_eq!(error.api.code, ErrorCode::KeyNotFound, "it does not say that the key is live");
        let later = Person { now_ms: end, ..person };
        let error = roll_key(&core, &later, &request(end + DAY_MS), None).await.unwrap_err();
        assert_eq!(error.api.code, ErrorCode::ChangedMeanwhile);
    }
}

//! The first steps of a project, and the data that shows which are done.

use thesis_proto::v1;

use super::health::Deliveries;
use crate::projects::path;

/// A step with the page on which it is done.
pub(super) struct Step {
    /// The name under which the browser remembers that the step is done: streams and verifications leave no lasting
    /// data.
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) href: String,
    pub(super) is_done: bool,
}

/// The project's data from which the done steps follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    has_key: bool,
    has_request: bool,
    has_stream: bool,
    has_delivery: bool,
    has_verification: bool,
}

impl Signs {
    /// `usage` has the requests of the last days, those of members included: they verify on pages of the console.
    pub(super) fn of(keys: &[v1::ApiKey], usage: &[v1::KeyUsage], limits: &v1::Usage, deliveries: &Deliveries) -> Self {
        Self {
            has_key: !keys.is_empty(),
            has_request: keys.iter().any(|key| key.last_used_at.is_some()),
            has_stream: limits.streams.as_ref().is_some_and(|streams| streams.open > 0),
            has_delivery: deliveries.has_success(),
            has_verification: usage.iter().any(|row| row.class == "verify" && row.requests > row.errors),
        }
    }
}

/// The steps of a project. None once all are done, or once live access is approved and a key was used.
pub(super) fn steps(project: &v1::Project, environment: &str, signs: &Signs) -> Vec<Step> {
    if project.archived || (project.live_approved && signs.has_request) {
        return Vec::new();
    }
    let home = path(&project.id);
    let data = |page: &str| format!("{home}/{environment}{page}");
    let step = |id, name, about, href, is_done| Step { id, name, about, href, is_done };
    let steps = vec![
        step("key", "Create a key", "Programs call the API with it.", format!("{home}/keys"), signs.has_key),
        step(
            "request",
            "Make a request",
            "The quick start has the first call in several languages.",
            "/docs/quick-start".to_owned(),
            signs.has_request,
        ),
        step("stream", "Open a stream", "Events arrive as they happen.", "/docs/streams".to_owned(), signs.has_stream),
        step(
            "webhook",
            "Receive a webhook",
            "The service sends signed events to your URL.",
            data("/webhooks"),
            signs.has_delivery,
        ),
        step(
            "verify",
            "Verify a thesis",
            "Check what somebody claims to have posted.",
            data("/explore/verify"),
            signs.has_verification,
        ),
        step(
            "live",
            "Ask for live access",
            "An administrator approves it. Then live keys work.",
            format!("{home}#live-access"),
            project.live_approved || project.live_requested_at.is_some(),
        ),
    ];
    if steps.iter().all(|step| step.is_done) { Vec::new() } else { steps }
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    fn done(project: &v1::Project, signs: &Signs) -> Vec<&'static str> {
        let steps = steps(project, "test", signs);
        steps.into_iter().filter(|step| step.is_done).map(|step| step.id).collect()
    }

    #[test]
    fn steps_are_done_by_their_signs() {
        let project = v1::Project::default();
        assert_eq!(steps(&project, "test", &Signs::default()).len(), 6);
        assert!(done(&project, &Signs::default()).is_empty());
        let used = v1::ApiKey { last_used_at: Some(from_millis(1)), ..v1::ApiKey::default() };
        let row = |class: &str, requests, errors| v1::KeyUsage {
            class: class.to_owned(),
            requests,
            errors,
            ..v1::KeyUsage::default()
        };
        let open = v1::Usage {
            streams: Some(v1::StreamUsage { open: 1, ..v1::StreamUsage::default() }),
            ..v1::Usage::default()
        };
        let signs =
            |usage: &[v1::KeyUsage]| Signs::of(std::slice::from_ref(&used), usage, &open, &Deliveries::default());
        assert_eq!(done(&project, &signs(&[row("verify", 1, 0)])), ["key", "request", "stream", "verify"]);
        // A refused verification does not count.
        assert_eq!(done(&project, &signs(&[row("verify", 1, 1), row("heavy", 9, 0)])), ["key", "request", "stream"]);
    }

    #[test]
    fn a_project_in_use_has_no_steps_left() {
        let signs = Signs { has_key: true, has_request: true, ..Signs::default() };
        let live = v1::Project { live_approved: true, ..v1::Project::default() };
        assert!(steps(&live, "live", &signs).is_empty());
        assert!(!steps(&live, "live", &Signs::default()).is_empty());
        let all = Signs { has_stream: true, has_delivery: true, has_verification: true, ..signs };
        let asked = v1::Project { live_requested_at: Some(from_millis(1)), ..v1::Project::default() };
        assert!(steps(&asked, "test", &all).is_empty());
    }
}

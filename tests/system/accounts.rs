//! People and their own access, over gRPC as a front end speaks for them.

mod approval;
mod audit;
mod changes;
mod closed;
mod confirmation;
pub(crate) mod factors;
mod first_minute;
mod invitations;
mod last;
mod limits;
mod mail;
mod passwords;
mod races;
mod roles;
mod rolls;
mod secrets;
mod sessions;
mod sign_up;
mod usage;

use std::time::Duration;

use thesis_proto::error::ErrorCode;

use crate::harness::{Answer, Client, Service, eventually};

/// Longest time until a change acts everywhere.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Waits until a key is answered alike at each edge, which must be at once.
async fn everywhere(service: &Service, key: &str, what: &str, is_so: impl Fn(&Answer) -> bool) {
    for edge in &service.edges {
        let client = Client::new(edge, Some(key));
        eventually(what, AT_ONCE, async || is_so(&client.get("/v1/me").await).then_some(())).await;
    }
}

/// The codes with which calls were refused, beside how many were not.
fn outcomes<T>(answers: &[Result<T, ErrorCode>]) -> (usize, Vec<ErrorCode>) {
    let refused: Vec<ErrorCode> = answers.iter().filter_map(|answer| answer.as_ref().err().copied()).collect();
    (answers.len() - refused.len(), refused)
}

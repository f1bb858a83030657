//! Limits of tries, exact over all cores: a try is reserved before its work, and given back when it succeeds.

use thesis_proto::error::{ApiError, ErrorCode};

use super::known::Origin;
use crate::{
    domain::{
        abuse::{limit_factor, limited_networks, network_of},
        account::folded_email,
        window::{DAY_MS, HOUR_MS, MINUTE_MS},
    },
    error::{Error, Result},
    shared::Shared,
    store::{Consistency, StoreError},
    tables::attempts::{self as rows, Attempts},
};

/// Most rounds against others who write the same row: in each round one of them reserves a try or gives one back.
const ROUNDS: usize = 100;
/// Longest time that a try is under way, in milliseconds.
const UNDER_WAY_MS: i64 = 10_000;
/// How soon one may try again while only those under way are too many, in milliseconds.
const SOON_MS: i64 = 1_000;
/// How long a row is kept after its last try counts, in milliseconds.
const KEPT_MS: i64 = MINUTE_MS;

/// Most tries in a time.
#[derive(Debug)]
pub struct Limit {
    name: &'static str,
    most: usize,
    window_ms: i64,
}

/// Failed sign-ins to an account from one network, or from one of the user's devices.
pub const SIGN_IN_FROM_ORIGIN: Limit = Limit { name: "sign_in/origin", most: 10, window_ms: HOUR_MS };
/// Failed sign-ins to an account from all unknown networks together. Further tries are slowed down, not refused for the
/// hour: an attacker with many networks must not keep the user out.
pub const SIGN_IN_FROM_UNKNOWN: Limit = Limit { name: "sign_in/unknown", most: 10, window_ms: HOUR_MS };
/// The pace of these further tries: one in two seconds. With [`SIGN_IN_FROM_UNKNOWN`] an attacker with any number of
/// networks has at most 43,440 guesses a day at a password of at least 12 characters.
pub const SIGN_IN_PACE: Limit = Limit { name: "sign_in/pace", most: 1, window_ms: 2_000 };
/// Sessions that begin with the password of an account. Only the right password counts, so strangers cannot use it up.
pub const SIGN_INS_OF_ACCOUNT: Limit = Limit { name: "signed_in", most: 30, window_ms: HOUR_MS };
/// Wrong present passwords in one session, when its user changes the password.
pub const PASSWORD_IN_SESSION: Limit = Limit { name: "password/session", most: 10, window_ms: HOUR_MS };
/// Failed sign-ins from an address.
pub const SIGN_IN_FROM_ADDRESS: Limit = Limit { name: "sign_in/address", most: 20, window_ms: MINUTE_MS };
/// Sign-ups from an address, successful ones too.
pub const SIGN_UP_FROM_ADDRESS: Limit = Limit { name: "sign_up/address", most: 10, window_ms: HOUR_MS };
/// Links for a new password that are requested for an account from one network.
pub const RESET_FROM_NETWORK: Limit = Limit { name: "reset/network", most: 3, window_ms: HOUR_MS };
/// Links for a new password that are sent to an account. A request above it is answered as any other.
pub const RESET_OF_ACCOUNT: Limit = Limit { name: "reset/account", most: 10, window_ms: HOUR_MS };
/// Links for a new password that are asked for from an address.
pub const RESET_FROM_ADDRESS: Limit = Limit { name: "reset/address", most: 20, window_ms: MINUTE_MS };

/// Changes of the control log by a user, successful ones too.
pub const CHANGES_OF_USER: Limit = Limit { name: "changes/user", most: 300, window_ms: HOUR_MS };
/// Invitations of a person to an organization.
pub const INVITATIONS_TO: Limit = Limit { name: "invitations", most: 5, window_ms: DAY_MS };
/// Invitations that an organization mails.
pub const INVITATIONS_OF_ORGANIZATION: Limit = Limit { name: "invitations/organization", most: 50, window_ms: DAY_MS };
/// Letters with a link that confirms an e-mail, beside the first one.
pub const CONFIRMATIONS_OF_USER: Limit = Limit { name: "confirmations/user", most: 5, window_ms: HOUR_MS };

/// A reserved try.
#[derive(Debug)]
pub struct Try {
    subject: String,
    window_ms: i64,
    at: i64,
}

fn too_many(wait_ms: i64) -> Error {
    crate::figures::LIMITS.at("tries").increment(1);
    let seconds = u32::try_from((wait_ms.max(1) + 999) / 1_000).unwrap_or(u32::MAX);
    let text = format!("too many tries; try again in {seconds} seconds");
    ApiError::new(ErrorCode::RateLimited, text).with_retry_after(seconds).into()
}

fn too_many_at_once() -> Error {
    StoreError::Unavailable("too many tries at once".to_owned()).into()
}

fn kept(window_ms: i64) -> Option<u32> {
    u32::try_from((window_ms + KEPT_MS) / 1_000).ok()
}

/// The network by which an address is counted.
#[must_use]
pub fn network(address: &str) -> String {
    address.parse().map_or_else(|_| address.to_owned(), network_of)
}

/// Reserves a try for an address, if it is known, and for the network around it.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn from_address(shared: &Shared, limit: &Limit, address: Option<&str>) -> Result<Vec<Try>> {
    let mut tries = Vec::new();
    let Some(address) = address else { return Ok(tries) };
    for network in limited_networks(&network(address)) {
        let limit = Limit { most: limit.most * usize::from(limit_factor(&network)), ..*limit };
        match reserve(shared, &limit, &network).await {
            Ok(reserved) => tries.push(reserved),
            Err(error) => {
                // The network around it is full, so nothing is tried.
                give_back(shared, tries).await;
                return Err(error);
            }
        }
    }
    Ok(tries)
}

/// Reserves a try for the account with an e-mail, whether there is one or not.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn of_account(shared: &Shared, limit: &Limit, email: &str) -> Result<Try> {
    reserve(shared, limit, &account(shared, email)).await
}

/// Reserves a try for the account with an e-mail, whether there is one or not; none if the limit is reached.
///
/// # Errors
/// When the store does not answer.
pub async fn of_account_if_free(shared: &Shared, limit: &Limit, email: &str) -> Result<Option<Try>> {
    Ok(reserve_or_wait(shared, limit, &account(shared, email)).await?.ok())
}

/// Reserves a try for the account with an e-mail, whether there is one or not, from the network of an address.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn of_account_from(shared: &Shared, limit: &Limit, email: &str, address: Option<&str>) -> Result<Try> {
    let network = address.map(network).unwrap_or_default();
    reserve(shared, limit, &format!("{}/{network}", account(shared, email))).await
}

/// Reserves a try to sign in to the account with an e-mail, whether there is one or not.
///
/// A known device counts only by itself. The address counts for a known network too: else a stranger there could see
/// which accounts the limit of the address does not hold for, and so which ones exist.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn of_sign_in(shared: &Shared, email: &str, origin: &Origin, address: Option<&str>) -> Result<Vec<Try>> {
    let from_address = match origin {
        Origin::Device(_) => Vec::new(),
        Origin::Network { .. } => from_address(shared, &SIGN_IN_FROM_ADDRESS, address).await?,
    };
    match of_account_and_origin(shared, &account(shared, email), origin).await {
        Ok(tries) => Ok(from_address.into_iter().chain(tries).collect()),
        Err(error) => {
            // Trying an account that may not be tried is a failure of the address too.
            if error.api.code.http_status() >= 500 {
                give_back(shared, from_address).await;
            }
            Err(error)
        }
    }
}

async fn of_account_and_origin(shared: &Shared, account: &str, origin: &Origin) -> Result<Vec<Try>> {
    let from_origin = reserve(shared, &SIGN_IN_FROM_ORIGIN, &format!("{account}/{}", origin.key())).await?;
    if origin.is_known() {
        return Ok(vec![from_origin]);
    }
    match from_unknown(shared, account).await {
        Ok(from_unknown) => Ok(vec![from_origin, from_unknown]),
        Err(error) => {
            // Nothing was tried: whoever waits for the pace has not failed.
            give_back(shared, [from_origin]).await;
            Err(error)
        }
    }
}

async fn from_unknown(shared: &Shared, account: &str) -> Result<Try> {
    match reserve_or_wait(shared, &SIGN_IN_FROM_UNKNOWN, account).await? {
        Ok(reserved) => Ok(reserved),
        Err(_) => reserve(shared, &SIGN_IN_PACE, account).await,
    }
}

/// Reserves a try in a session.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn of_session(shared: &Shared, limit: &Limit, session_id: &str) -> Result<Try> {
    reserve(shared, limit, session_id).await
}

/// Reserves a try for a user.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn of_user(shared: &Shared, limit: &Limit, user_id: &str) -> Result<Try> {
    reserve(shared, limit, user_id).await
}

/// Reserves an invitation of an e-mail to an organization.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn of_invitation(shared: &Shared, organization_id: &str, email: &str) -> Result<Try> {
    let to = account(shared, email);
    reserve(shared, &INVITATIONS_TO, &format!("{organization_id}/{to}")).await
}

/// Reserves a letter with an invitation to an organization.
///
/// # Errors
/// `RATE_LIMITED`, or when the store does not answer.
pub async fn of_mailed_invitation(shared: &Shared, organization_id: &str) -> Result<Try> {
    reserve(shared, &INVITATIONS_OF_ORGANIZATION, organization_id).await
}

/// The text by which the account with an e-mail is counted.
fn account(shared: &Shared, email: &str) -> String {
    shared.keys.email_hash(&folded_email(email))
}

async fn reserve(shared: &Shared, limit: &Limit, of: &str) -> Result<Try> {
    reserve_or_wait(shared, limit, of).await?.map_err(too_many)
}

/// Reserves a try, or returns the milliseconds until there may be one.
async fn reserve_or_wait(shared: &Shared, limit: &Limit, of: &str) -> Result<std::result::Result<Try, i64>> {
    let subject = format!("{}/{of}", limit.name);
    let mut consistency = Consistency::Quorum;
    for _ in 0..ROUNDS {
        let now = shared.clock.now_ms();
        let (version, mut attempts) = read(shared, &subject, consistency).await?;
        attempts.times.retain(|at| now - at < limit.window_ms);
        if attempts.times.len() >= limit.most {
            // The next may come when one fewer than the limit count. Those under way may soon be given back.
            let over: Vec<i64> = attempts.times.iter().copied().filter(|at| now - at >= UNDER_WAY_MS).collect();
            let first = over.len().checked_sub(limit.most).map(|over_most| over[over_most]);
            return Ok(Err(first.map_or(SOON_MS, |at| at + limit.window_ms - now)));
        }
        attempts.times.push(now);
        attempts.times.sort_unstable();
        if rows::write(&shared.backend, &subject, version, &attempts, kept(limit.window_ms)).await? {
            return Ok(Ok(Try { subject, window_ms: limit.window_ms, at: now }));
        }
        consistency = Consistency::Serial;
    }
    Err(too_many_at_once())
}

async fn read(shared: &Shared, subject: &str, consistency: Consistency) -> Result<(Option<i64>, Attempts)> {
    let row = rows::read(&shared.backend, subject, consistency).await?;
    Ok(row.map_or_else(Default::default, |(version, attempts)| (Some(version), attempts)))
}

/// Gives tries back: they succeeded, or nothing was tried. A failure of the store leaves them counted.
pub async fn give_back(shared: &Shared, tries: impl IntoIterator<Item = Try>) {
    for one in tries {
        if let Err(error) = give_one_back(shared, &one).await {
            tracing::warn!(%error, "giving back a try failed");
        }
    }
}

async fn give_one_back(shared: &Shared, one: &Try) -> Result<()> {
    let mut consistency = Consistency::Quorum;
    for _ in 0..ROUNDS {
        let (version, mut attempts) = read(shared, &one.subject, consistency).await?;
        let Some(place) = attempts.times.iter().position(|at| *at == one.at) else { return Ok(()) };
        attempts.times.remove(place);
        if rows::write(&shared.backend, &one.subject, version, &attempts, kept(one.window_ms)).await? {
            return Ok(());
        }
        consistency = Consistency::Serial;
    }
    Err(too_many_at_once())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::join_all;

    use super::*;
    use crate::testing::{ManualClock, core, shared_memory};

    #[tokio::test]
    async fn tries_at_once_on_two_cores_are_limited_exactly_and_come_back_with_time() {
        let clock = ManualClock::new();
        let store = shared_memory(&clock);
        let cores = [core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await];
        let all = (0..30).map(|turn| of_account(&cores[turn % 2].shared, &SIGN_IN_FROM_UNKNOWN, "Ada@Example.com"));
        let (taken, refused): (Vec<_>, Vec<_>) = join_all(all).await.into_iter().partition(Result::is_ok);
        assert_eq!((taken.len(), refused.len()), (10, 20));
        let error = refused.into_iter().find_map(Result::err).unwrap();
        assert_eq!((error.api.code, error.api.retry_after), (ErrorCode::RateLimited, Some(1)));
        clock.advance(UNDER_WAY_MS);
        let error = of_account(&cores[0].shared, &SIGN_IN_FROM_UNKNOWN, "ada@example.com").await.unwrap_err();
        assert_eq!(error.api.retry_after, Some(3_590));

        clock.advance(HOUR_MS - UNDER_WAY_MS - 1);
        let [one, other] = &cores;
        let again = || of_account(&other.shared, &SIGN_IN_FROM_UNKNOWN, " ada@example.COM");
        let error = again().await.unwrap_err();
        assert_eq!(error.api.retry_after, Some(1));
        give_back(&one.shared, taken.into_iter().flatten().take(1)).await;
        let last = again().await.unwrap();
        assert!(again().await.is_err());
        give_back(&one.shared, [last]).await;
        clock.advance(1);
        for _ in 0..10 {
            again().await.unwrap();
        }
        assert!(again().await.is_err());
    }

    #[tokio::test]
    async fn limits_count_apart() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        for _ in 0..10 {
            from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some("192.0.2.1")).await.unwrap();
        }
        assert!(from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some("192.0.2.1")).await.is_err());
        assert!(from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some("192.0.2.2")).await.is_ok());
        assert!(from_address(&core.shared, &SIGN_IN_FROM_ADDRESS, Some("192.0.2.1")).await.is_ok());
        assert!(from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, None).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_48_of_ipv6_has_sixteen_times_the_limit_of_a_64() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        let sign_up = async |network: usize, host: usize| {
            let address = format!("2001:db8:1:{network:x}::{host:x}");
            from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some(&address)).await
        };
        for network in 0..16 {
            for host in 0..10 {
                sign_up(network, host).await.unwrap();
            }
            assert!(sign_up(network, 10).await.is_err(), "{network}");
        }
        // The /64 is fresh, but its /48 is full. Refused tries are not kept, so the limits end together.
        for host in 0..20 {
            assert!(sign_up(16, host).await.is_err(), "{host}");
        }
        let elsewhere = Some("2001:db8:2::1");
        let tries = from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, elsewhere).await.unwrap();
        assert_eq!(tries.len(), 2);
        clock.advance(HOUR_MS);
        for host in 0..10 {
            sign_up(16, host).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_try_given_back_counts_neither_for_the_64_nor_for_the_48() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        for turn in 0..400 {
            let address = format!("2001:db8:1:{:x}::1", turn % 4);
            let tries = from_address(&core.shared, &SIGN_IN_FROM_ADDRESS, Some(&address)).await.unwrap();
            give_back(&core.shared, tries).await;
        }
    }

    #[tokio::test]
    async fn an_organization_mails_fifty_invitations_a_day() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        for _ in 0..50 {
            of_mailed_invitation(&core.shared, "org_1").await.unwrap();
        }
        let error = of_mailed_invitation(&core.shared, "org_1").await.unwrap_err();
        assert_eq!((error.api.code, error.api.retry_after), (ErrorCode::RateLimited, Some(1)));
        of_mailed_invitation(&core.shared, "org_2").await.unwrap();
        clock.advance(DAY_MS);
        of_mailed_invitation(&core.shared, "org_1").await.unwrap();
    }
}

//! Limits of attempts, exact over all cores: a caller reserves an attempt before the work, and gives it back if the
//! work succeeds.

#[cfg(test)]
mod tests;

use thesis_proto::error::{ApiError, ErrorCode};

use super::known::Origin;
use crate::{
    domain::{
        abuse::{limit_factor, limited_networks, network_of_text, wide_network},
        account::folded_email,
        window::{DAY_MS, HOUR_MS, MINUTE_MS},
    },
    error::{Error, Result},
    shared::Shared,
    store::{Consistency, StoreError},
    tables::attempts::{self as rows, Attempts},
};

/// Rounds against concurrent writers of the same row: in each round one of them reserves an attempt or gives one back.
const ROUNDS: usize = 100;
/// An attempt takes at most this long, in milliseconds.
const UNDER_WAY_MS: i64 = 10_000;
/// Wait before the next attempt while only running ones exceed a limit, in milliseconds.
const SOON_MS: i64 = 1_000;
/// A row is kept this long after its last attempt counts, in milliseconds.
pub const KEPT_MS: i64 = MINUTE_MS;

#[derive(Clone, Copy, Debug)]
pub struct Limit {
    name: &'static str,
    max: usize,
    window_ms: i64,
}

/// Failed sign-ins to an account from one network, or from one of the user's devices.
pub const SIGN_IN_FROM_ORIGIN: Limit = Limit { name: "sign_in/origin", max: 10, window_ms: HOUR_MS };
/// Failed sign-ins to an account from all unknown networks together. Further attempts are slowed down, not refused for
/// the hour: an attacker with many networks must not lock the user out.
pub const SIGN_IN_FROM_UNKNOWN: Limit = Limit { name: "sign_in/unknown", max: 10, window_ms: HOUR_MS };
/// The pace of these further attempts: one in two seconds. With [`SIGN_IN_FROM_UNKNOWN`] an attacker with any number of
/// networks has at most 43,440 guesses a day at a password of at least 12 characters.
pub const SIGN_IN_PACE: Limit = Limit { name: "sign_in/pace", max: 1, window_ms: 2_000 };
/// The share of the pace for one network, a /24 of IPv4 or a /48 of IPv6: every third attempt. So an attacker in one
/// network leaves attempts to the user.
const SIGN_IN_PACE_OF_NETWORK: Limit = Limit { name: "sign_in/pace_of_network", max: 1, window_ms: 6_000 };
/// Ways to sign in that are not subject to the pace, for the text of the error.
const WAYS_IN: &str =
    ", sign in on a device or in a network where you signed in before, or ask for a link for a new password";
/// Sessions that start with the password of an account. Only the right password counts, so strangers cannot use up this
/// limit.
pub const SIGN_INS_OF_ACCOUNT: Limit = Limit { name: "signed_in", max: 30, window_ms: HOUR_MS };
/// Wrong present passwords in one session, in requests to change the password.
pub const PASSWORD_IN_SESSION: Limit = Limit { name: "password/session", max: 10, window_ms: HOUR_MS };
/// Wrong codes of a user's authenticator app, and wrong recovery codes. Only a caller with the password can try them.
pub const CODES_OF_USER: Limit = Limit { name: "codes/user", max: 10, window_ms: HOUR_MS };
/// Notices that a user gets.
pub const NOTICES_OF_USER: Limit = Limit { name: "notices/user", max: 30, window_ms: DAY_MS };
/// Successful password changes of a user.
pub const PASSWORDS_OF_USER: Limit = Limit { name: "password/user", max: 10, window_ms: HOUR_MS };
/// Failed sign-ins from an address.
pub const SIGN_IN_FROM_ADDRESS: Limit = Limit { name: "sign_in/address", max: 20, window_ms: MINUTE_MS };
/// Sign-ups from an address, successful ones too.
pub const SIGN_UP_FROM_ADDRESS: Limit = Limit { name: "sign_up/address", max: 10, window_ms: HOUR_MS };
/// Links for a new password that are requested for an account from one network.
pub const RESET_FROM_NETWORK: Limit = Limit { name: "reset/network", max: 3, window_ms: HOUR_MS };
/// Links for a new password that are sent to an account. A request beyond these limits gets the same response as any
/// other.
pub const RESET_OF_ACCOUNT: [Limit; 2] = [
    Limit { name: "reset/account", max: 10, window_ms: HOUR_MS },
    Limit { name: "reset/day", max: 20, window_ms: DAY_MS },
];
/// Links for a new password that are requested from an address.
pub const RESET_FROM_ADDRESS: Limit = Limit { name: "reset/address", max: 20, window_ms: MINUTE_MS };

/// Changes of the control log by a user, successful ones too.
pub const CHANGES_OF_USER: Limit = Limit { name: "changes/user", max: 300, window_ms: HOUR_MS };
/// Invitations of a person to an organization.
pub const INVITATIONS_TO: Limit = Limit { name: "invitations", max: 5, window_ms: DAY_MS };
/// Invitations that an organization mails.
pub const INVITATIONS_OF_ORGANIZATION: Limit = Limit { name: "invitations/organization", max: 50, window_ms: DAY_MS };
/// Mails with a link that confirms an e-mail, not counting the first one.
pub const CONFIRMATIONS_OF_USER: [Limit; 2] = [
    Limit { name: "confirmations/user", max: 5, window_ms: HOUR_MS },
    Limit { name: "confirmations/day", max: 10, window_ms: DAY_MS },
];

#[derive(Debug)]
pub struct ReservedAttempt {
    subject: String,
    window_ms: i64,
    at: i64,
}

/// Reserved attempts, or the milliseconds until the next attempt is possible.
type ReservedOrWait<T> = std::result::Result<T, i64>;

/// The error for a reached limit, with the caller's alternatives.
fn limited(wait_ms: i64, or_else: &str) -> Error {
    crate::metrics::LIMITS.at("tries").increment(1);
    let seconds = u32::try_from((wait_ms.max(1) + 999) / 1_000).unwrap_or(u32::MAX);
    let text = format!("too many tries; try again in {seconds} seconds{or_else}");
    ApiError::new(ErrorCode::RateLimited, text).with_retry_after(seconds).into()
}

/// Reserves an attempt for an address, if it is known, and for the network around it.
pub async fn from_address(shared: &Shared, limit: &Limit, address: Option<&str>) -> Result<Vec<ReservedAttempt>> {
    let Some(address) = address else { return Ok(Vec::new()) };
    let network = network_of_text(address);
    let limits = limited_networks(&network).map(|network| {
        let max = limit.max * usize::from(limit_factor(&network));
        (Limit { max, ..*limit }, network)
    });
    reserve_all(shared, limits.collect()).await
}

/// Reserves an attempt for the account with an e-mail, which may not exist; none if one of the limits is reached.
pub async fn of_account_if_free(
    shared: &Shared,
    limits: &[Limit],
    email: &str,
) -> Result<Option<Vec<ReservedAttempt>>> {
    let account = account(shared, email);
    let limits = limits.iter().map(|limit| (*limit, account.clone())).collect();
    Ok(reserve_all_or_wait(shared, limits).await?.ok())
}

/// Reserves an attempt to sign in to the account with an e-mail, which may not exist.
///
/// A known device counts only by itself. For a known network the address counts too, so a stranger there has no more
/// attempts than elsewhere. The stranger can still find out that the network is known, and so that the account exists,
/// because the pace of unknown networks does not apply there. That is the price for known networks that work during an
/// attack.
pub async fn of_sign_in(
    shared: &Shared,
    email: &str,
    origin: &Origin,
    address: Option<&str>,
) -> Result<Vec<ReservedAttempt>> {
    let account = account(shared, email);
    if !origin.is_known() {
        demand_pace(shared, &account, origin.key()).await?;
    }
    let mut tries = match origin {
        Origin::Device(_) => Vec::new(),
        Origin::Network { .. } => from_address(shared, &SIGN_IN_FROM_ADDRESS, address).await?,
    };
    match reserve(shared, &SIGN_IN_FROM_ORIGIN, &format!("{account}/{}", origin.key())).await {
        Ok(reserved) => tries.push(reserved),
        Err(error) => {
            // An attempt at an account beyond its limit is also a failure of the address.
            if error.api.code.http_status() >= 500 {
                give_back(shared, tries).await;
            }
            return Err(error);
        }
    }
    if origin.is_known() {
        return Ok(tries);
    }
    match from_unknown(shared, &account, origin.key()).await {
        Ok(reserved) => tries.extend(reserved),
        Err(error) => {
            // A client that waits for the pace has not failed, so others at its address keep their attempts.
            give_back(shared, tries).await;
            return Err(error);
        }
    }
    Ok(tries)
}

/// Returns the limits of an account from unknown networks after the first ten attempts.
fn pace(account: &str, network: &str) -> Vec<(Limit, String)> {
    let of_network = format!("{account}/{}", wide_network(network));
    vec![(SIGN_IN_PACE_OF_NETWORK, of_network), (SIGN_IN_PACE, account.to_owned())]
}

/// Refuses an attempt that has to wait for the pace. It writes nothing, so that a client that polls costs little.
async fn demand_pace(shared: &Shared, account: &str, network: &str) -> Result<()> {
    if read_wait(shared, &SIGN_IN_FROM_UNKNOWN, account).await?.is_none() {
        return Ok(());
    }
    for (limit, of) in pace(account, network) {
        if let Some(wait_ms) = read_wait(shared, &limit, &of).await? {
            return Err(limited(wait_ms, WAYS_IN));
        }
    }
    Ok(())
}

async fn from_unknown(shared: &Shared, account: &str, network: &str) -> Result<Vec<ReservedAttempt>> {
    if let Ok(reserved) = reserve_or_wait(shared, &SIGN_IN_FROM_UNKNOWN, account).await? {
        return Ok(vec![reserved]);
    }
    reserve_all_or_wait(shared, pace(account, network)).await?.map_err(|wait_ms| limited(wait_ms, WAYS_IN))
}

/// Returns the text that counts for the account with an e-mail, which may not exist.
pub fn account(shared: &Shared, email: &str) -> String {
    shared.keys.email_hash(&folded_email(email))
}

/// Reserves an attempt under each of several limits, or none at all.
pub async fn reserve_all(shared: &Shared, limits: Vec<(Limit, String)>) -> Result<Vec<ReservedAttempt>> {
    reserve_all_or_wait(shared, limits).await?.map_err(|wait_ms| limited(wait_ms, ""))
}

async fn reserve_all_or_wait(
    shared: &Shared,
    limits: Vec<(Limit, String)>,
) -> Result<ReservedOrWait<Vec<ReservedAttempt>>> {
    let mut tries = Vec::new();
    for (limit, of) in limits {
        match reserve_or_wait(shared, &limit, &of).await {
            Ok(Ok(reserved)) => tries.push(reserved),
            refusal => {
                give_back(shared, tries).await;
                return refusal.map(|wait| wait.map(|_| Vec::new()));
            }
        }
    }
    Ok(Ok(tries))
}

/// Reserves an attempt of a user, a session or anything else that a limit counts by its id.
pub async fn reserve(shared: &Shared, limit: &Limit, of: &str) -> Result<ReservedAttempt> {
    reserve_or_wait(shared, limit, of).await?.map_err(|wait_ms| limited(wait_ms, ""))
}

fn subject(limit: &Limit, of: &str) -> String {
    format!("{}/{of}", limit.name)
}

/// Drops expired attempts. Returns the milliseconds until the next attempt; none if it is possible now.
fn wait_after(limit: &Limit, times: &mut Vec<i64>, now: i64) -> Option<i64> {
    times.retain(|at| now - at < limit.window_ms);
    if times.len() < limit.max {
        return None;
    }
    // The next attempt is possible when the count falls below the limit. Running ones may soon be given back.
    let over: Vec<i64> = times.iter().copied().filter(|at| now - at >= UNDER_WAY_MS).collect();
    let first = over.len().checked_sub(limit.max).map(|first_over| over[first_over]);
    Some(first.map_or(SOON_MS, |at| at + limit.window_ms - now))
}

/// Reads the milliseconds until the next attempt; none if it is possible now. It reserves nothing.
async fn read_wait(shared: &Shared, limit: &Limit, of: &str) -> Result<Option<i64>> {
    let (_, mut attempts) = read(shared, &subject(limit, of), Consistency::Quorum).await?;
    Ok(wait_after(limit, &mut attempts.times, shared.clock.now_ms()))
}

async fn reserve_or_wait(shared: &Shared, limit: &Limit, of: &str) -> Result<ReservedOrWait<ReservedAttempt>> {
    let subject = subject(limit, of);
    let reserve = |times: &mut Vec<i64>| {
        let now = shared.clock.now_ms();
        if let Some(wait_ms) = wait_after(limit, times, now) {
            return Err(wait_ms);
        }
        times.push(now);
        times.sort_unstable();
        Ok(now)
    };
    let reserved = update(shared, &subject, limit.window_ms, reserve).await?;
    Ok(reserved.map(|at| ReservedAttempt { subject, window_ms: limit.window_ms, at }))
}

/// Gives attempts back that succeeded or were not made. If the store fails, they stay counted.
pub async fn give_back(shared: &Shared, tries: impl IntoIterator<Item = ReservedAttempt>) {
    for ReservedAttempt { subject, window_ms, at } in tries {
        let remove = |times: &mut Vec<i64>| {
            let index = times.iter().position(|other| *other == at);
            index.map(|index| times.remove(index)).ok_or(())
        };
        if let Err(error) = update(shared, &subject, window_ms, remove).await {
            tracing::warn!(%error, "giving back a try failed");
        }
    }
}

async fn read(shared: &Shared, subject: &str, consistency: Consistency) -> Result<(Option<i64>, Attempts)> {
    let row = rows::read(&shared.backend, subject, consistency).await?;
    Ok(row.map_or_else(Default::default, |(version, attempts)| (Some(version), attempts)))
}

/// Changes the times of the attempts of a subject, and returns the result of the change. Nothing is written if the
/// change fails.
async fn update<T, E>(
    shared: &Shared,
    subject: &str,
    window_ms: i64,
    change: impl Fn(&mut Vec<i64>) -> std::result::Result<T, E>,
) -> Result<std::result::Result<T, E>> {
    let lifetime = u32::try_from((window_ms + KEPT_MS) / 1_000).ok();
    let mut consistency = Consistency::Quorum;
    for _ in 0..ROUNDS {
        let (version, mut attempts) = read(shared, subject, consistency).await?;
        let changed = change(&mut attempts.times);
        if changed.is_err() || rows::write(&shared.backend, subject, version, &attempts, lifetime).await? {
            return Ok(changed);
        }
        consistency = Consistency::Serial;
    }
    Err(StoreError::Unavailable("too many tries at once".to_owned()).into())
}

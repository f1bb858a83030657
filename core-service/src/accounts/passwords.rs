//! Hashes passwords with argon2id, in separate threads. Known requesters have the next priority after responses to
//! requests, strangers have the lowest.

#[cfg(test)]
use std::sync::Arc;
use std::thread;

use argon2::{
    Algorithm, Argon2, Params, PasswordHash, PasswordHasher as _, PasswordVerifier as _, Version,
    password_hash::{Error as HashError, Result as HashResult},
};
use secrecy::{ExposeSecret as _, SecretString};
use thesis_net::clock::IdSource;
use thesis_proto::error::{ApiError, ErrorCode};
use thread_priority::ThreadPriority;

use crate::{
    domain::abuse::{limit_factor, limited_networks, network_of_text},
    error::{Error, Result},
    named_slots::NamedSlots,
    threads::{self, NotRun, Threads},
};

/// Memory of a hash in KiB.
const MEMORY: u32 = 19_456;
/// Passes over the memory.
const PASSES: u32 = 2;
/// Passwords in the queue.
const MAX_WAITING: usize = 32;
/// Queued and running passwords of one subject.
const MAX_OF_SUBJECT: usize = 4;
/// Queued and running passwords from one network.
const MAX_OF_NETWORK: usize = 8;
/// Queued and running passwords from a /48 network of IPv6: half of the queue.
const MAX_OF_WIDE_NETWORK: usize = 16;
const RETRY_AFTER: u32 = 1;
/// Priority, of 100, of the threads for known requesters: just below that of the threads that answer requests (50), so
/// that a flood of refused requests does not delay a sign-in. Strangers have the lowest.
const PRIORITY_OF_KNOWN: u8 = 45;
const SALT: usize = 16;

/// A hash for users who do not exist. Checking it takes the same time as any other, and no password matches it.
pub const NO_PASSWORD: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The person for whom a password is hashed. The limits leave room in the queue for others.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The account, or a part of its requests that strangers cannot use.
    pub subject: &'a str,
    /// The address of the client; none if it does not count.
    pub address: Option<&'a str>,
    /// The requester has signed in from there before, or has a link or session. Strangers never delay such requests.
    pub is_known: bool,
}

impl Requester<'_> {
    /// Returns the slots of the queue that a password takes: one of the subject and one of each network around the
    /// address.
    fn limits(self) -> Vec<(String, usize)> {
        let mut limits = vec![(format!("subject/{}", self.subject), MAX_OF_SUBJECT)];
        for network in self.address.map(network_of_text).iter().flat_map(|network| limited_networks(network)) {
            let limit = if limit_factor(&network) > 1 { MAX_OF_WIDE_NETWORK } else { MAX_OF_NETWORK };
            limits.push((format!("network/{network}"), limit));
        }
        limits
    }
}

pub struct Passwords {
    for_known: Threads,
    for_strangers: Threads,
    slots: NamedSlots,
    #[cfg(test)]
    pub(crate) hashed: Arc<std::sync::atomic::AtomicUsize>,
}

impl Default for Passwords {
    /// Starts the threads. They end with it.
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let start = |name, priority| Threads::start(name, processors / 2, priority, MAX_WAITING);
        Self {
            for_known: start("passwords", threads::priority(PRIORITY_OF_KNOWN)),
            for_strangers: start("strangers", ThreadPriority::Min),
            slots: NamedSlots::default(),
            #[cfg(test)]
            hashed: Arc::default(),
        }
    }
}

impl Passwords {
    /// Hashes a new password for storage, with its salt and parameters.
    pub async fn hash(&self, requester: Requester<'_>, password: &str, ids: &dyn IdSource) -> Result<String> {
        let mut salt = [0; SALT];
        ids.fill(&mut salt);
        let password = SecretString::from(password);
        let hash = self.run(requester, move || hash(&password, &salt)).await?;
        hash.map_err(|error| Error::internal(format!("hashing a password: {error}")))
    }

    /// Checks a password against a stored hash.
    pub async fn verify(&self, requester: Requester<'_>, password: &str, hash: String) -> Result<bool> {
        let password = SecretString::from(password);
        match self.run(requester, move || verify(&password, &hash)).await? {
            Ok(()) => Ok(true),
            Err(HashError::PasswordInvalid) => Ok(false),
            Err(error) => Err(Error::internal(format!("checking a password: {error}"))),
        }
    }

    /// Runs work in a slot of the requester.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        requester: Requester<'_>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let slot = self.slots.take_slots(requester.limits()).map_err(|_| {
            crate::metrics::LIMITS.at("tries").increment(1);
            let text = "too many passwords of this account or network are checked right now; try again";
            ApiError::new(ErrorCode::RateLimited, text).with_retry_after(RETRY_AFTER)
        })?;
        #[cfg(test)]
        let hashed = Arc::clone(&self.hashed);
        let work = move || {
            #[cfg(test)]
            hashed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let outcome = work();
            // The slot is free again when the response arrives.
            drop(slot);
            outcome
        };
        let threads = if requester.is_known { &self.for_known } else { &self.for_strangers };
        threads.run(work).await.map_err(|error| match error {
            NotRun::Full => {
                let text = "too many people sign in right now; try again";
                ApiError::new(ErrorCode::ServiceUnavailable, text).with_retry_after(RETRY_AFTER).into()
            }
            NotRun::Failed => Error::internal("a thread that hashes passwords failed"),
        })
    }
}

fn hasher() -> HashResult<Argon2<'static>> {
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(MEMORY, PASSES, 1, None)?))
}

fn hash(password: &SecretString, salt: &[u8]) -> HashResult<String> {
    let hash: PasswordHash = hasher()?.hash_password_with_salt(password.expose_secret().as_bytes(), salt)?;
    Ok(hash.to_string())
}

fn verify(password: &SecretString, hash: &str) -> HashResult<()> {
    let hash = PasswordHash::new(hash)?;
    hasher()?.verify_password(password.expose_secret().as_bytes(), &hash)
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering, task::Poll};

    use futures::future::join_all;
    use parking_lot::Mutex;
    use thesis_net::clock::SystemIdSource;

    use super::*;

    const PASSWORD: &str = "correct horse battery";
    const ANYBODY: Requester<'static> =
        Requester { subject: "ada@example.com", address: Some("192.0.2.1"), is_known: false };

    #[tokio::test]
    async fn a_hash_is_of_one_password_with_its_own_salt() {
        let passwords = Passwords::default();
        let hash = passwords.hash(ANYBODY, PASSWORD, &SystemIdSource).await.unwrap();
        let other = passwords.hash(ANYBODY, PASSWORD, &SystemIdSource).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_eq!(hash.len(), NO_PASSWORD.len());
        assert_ne!(hash, other);
        assert!(passwords.verify(ANYBODY, PASSWORD, hash.clone()).await.unwrap());
        assert!(!passwords.verify(ANYBODY, "correct horse batterY", hash).await.unwrap());
        assert!(!passwords.verify(ANYBODY, PASSWORD, NO_PASSWORD.to_owned()).await.unwrap());
        assert!(passwords.verify(ANYBODY, PASSWORD, "damaged".to_owned()).await.is_err());
    }

    #[tokio::test]
    async fn more_than_32_do_not_wait() {
        let passwords = Passwords::default();
        let subjects: Vec<String> = (0..100).map(|number| format!("{number}@example.com")).collect();
        let all = subjects.iter().map(|subject| {
            passwords.verify(Requester { subject, address: None, is_known: false }, PASSWORD, NO_PASSWORD.to_owned())
        });
        let refused: Vec<_> = join_all(all).await.into_iter().filter_map(Result::err).collect();
        let hashed = passwords.hashed.load(Ordering::SeqCst);
        assert_eq!(hashed + refused.len(), 100);
        assert!(hashed >= MAX_WAITING && !refused.is_empty(), "{hashed}");
        let error = &refused[0].api;
        assert_eq!((error.code, error.retry_after), (ErrorCode::ServiceUnavailable, Some(1)));
    }

    /// Fills the queue while no thread finishes; returns the refused subjects.
    async fn refused<'a>(passwords: &Passwords, all: &'a [(String, Option<String>)]) -> Vec<&'a str> {
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (mut waiting, mut refused) = (Vec::new(), Vec::new());
        for (subject, address) in all {
            let gate = Arc::clone(&gate);
            let requester = Requester { subject, address: address.as_deref(), is_known: false };
            let mut one = Box::pin(passwords.run(requester, move || gate.lock().recv().is_err()));
            let polled = futures::poll!(one.as_mut());
            match polled {
                Poll::Pending => waiting.push(one),
                Poll::Ready(outcome) => {
                    let error = outcome.unwrap_err().api;
                    assert_eq!((error.code, error.retry_after), (ErrorCode::RateLimited, Some(1)));
                    refused.push(subject.as_str());
                }
            }
        }
        drop(open);
        assert!(join_all(waiting).await.into_iter().all(|outcome| outcome.unwrap()));
        assert!(passwords.slots.is_empty(), "every place is free again");
        assert!(passwords.verify(ANYBODY, PASSWORD, NO_PASSWORD.to_owned()).await.is_ok());
        refused
    }

    #[tokio::test]
    async fn one_account_and_one_network_leave_room_for_others() {
        let account = (0..6).map(|number| ("ada@example.com".to_owned(), Some(format!("192.0.2.{number}"))));
        let network = (0..10).map(|number| (format!("{number}@example.com"), Some("2001:db8::1".to_owned())));
        let others = (0..6).map(|number| (format!("other{number}@example.com"), None));
        let all: Vec<(String, Option<String>)> = account.chain(network).chain(others).collect();
        let expected = ["ada@example.com", "ada@example.com", "8@example.com", "9@example.com"];
        assert_eq!(refused(&Passwords::default(), &all).await, expected);
    }

    #[tokio::test]
    async fn a_48_of_ipv6_leaves_room_for_others() {
        let wide = (0..18).map(|number| (format!("{number}@example.com"), Some(format!("2001:db8:1:{number}::1"))));
        let others =
            (0..4).map(|number| (format!("other{number}@example.com"), Some(format!("2001:db8:2:{number}::1"))));
        let all: Vec<(String, Option<String>)> = wide.chain(others).collect();
        assert_eq!(refused(&Passwords::default(), &all).await, ["16@example.com", "17@example.com"]);
    }

    #[tokio::test]
    async fn strangers_never_delay_those_who_are_known() {
        let passwords = Passwords::default();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let subjects: Vec<String> = (0..20).map(|number| format!("{number}@example.com")).collect();
        let mut waiting: Vec<_> = subjects
            .iter()
            .map(|subject| {
                let gate = Arc::clone(&gate);
                let requester = Requester { subject, address: None, is_known: false };
                Box::pin(passwords.run(requester, move || gate.lock().recv().is_err()))
            })
            .collect();
        for one in &mut waiting {
            assert!(futures::poll!(one.as_mut()).is_pending());
        }
        let known = Requester { is_known: true, ..ANYBODY };
        assert!(!passwords.verify(known, PASSWORD, NO_PASSWORD.to_owned()).await.unwrap());
        drop(open);
        assert!(join_all(waiting).await.into_iter().all(|outcome| outcome.unwrap()));
    }
}

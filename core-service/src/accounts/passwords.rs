//! Hashes passwords with argon2id, in threads of their own: at most a part of the processors, and behind everything
//! else that wants to run.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use argon2::{
    Algorithm, Argon2, Params, PasswordHash, PasswordHasher as _, PasswordVerifier as _, Version,
    password_hash::{Error as HashError, Result as HashResult},
};
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use thesis_net::clock::IdSource;
use thesis_proto::error::{ApiError, ErrorCode};
use thread_priority::ThreadPriority;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};

/// Memory of a hash in KiB.
const MEMORY: u32 = 19_456;
/// Passes over the memory.
const PASSES: u32 = 2;
/// Most passwords that wait to be hashed.
const MOST_WAITING: usize = 32;
/// Seconds to wait when more do.
const RETRY_AFTER: u32 = 1;
/// Bytes of a salt.
const SALT: usize = 16;

/// The hash that stands for the password of a user who does not exist. Checking it takes the same time as any other,
/// and no password matches it.
pub const NO_PASSWORD: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

type Job = Box<dyn FnOnce() + Send>;

/// Hashes passwords.
pub struct Passwords {
    jobs: mpsc::Sender<Job>,
    /// How many were hashed or checked.
    #[cfg(test)]
    pub(crate) hashed: Arc<std::sync::atomic::AtomicUsize>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

impl Passwords {
    /// Starts the threads. They end with it.
    #[must_use]
    pub fn new() -> Self {
        let (jobs, waiting) = mpsc::channel(MOST_WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(processors / 2).max(1) {
            let waiting = Arc::clone(&waiting);
            let started = thread::Builder::new().name("passwords".to_owned()).spawn(move || work(&waiting));
            if let Err(error) = started {
                // Without any thread every password is refused.
                tracing::error!(%error, "a thread that hashes passwords did not start");
            }
        }
        Self {
            jobs,
            #[cfg(test)]
            hashed: Arc::default(),
        }
    }

    /// The hash under which a new password is stored, with its salt and parameters.
    ///
    /// # Errors
    /// `SERVICE_UNAVAILABLE` when too many passwords wait.
    pub async fn hash(&self, password: &str, ids: &dyn IdSource) -> Result<String> {
        let mut salt = [0; SALT];
        ids.fill(&mut salt);
        let password = SecretString::from(password);
        let hash = self.run(move || hash(&password, &salt)).await?;
        hash.map_err(|error| Error::internal(format!("hashing a password: {error}")))
    }

    /// Whether a password is the one of a stored hash.
    ///
    /// # Errors
    /// `SERVICE_UNAVAILABLE` when too many passwords wait, or when the hash is damaged.
    pub async fn verify(&self, password: &str, hash: String) -> Result<bool> {
        let password = SecretString::from(password);
        match self.run(move || verify(&password, &hash)).await? {
            Ok(()) => Ok(true),
            Err(HashError::PasswordInvalid) => Ok(false),
            Err(error) => Err(Error::internal(format!("checking a password: {error}"))),
        }
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        #[cfg(test)]
        let hashed = Arc::clone(&self.hashed);
        let job = move || {
            // Nobody waits for it any more when its call has ended.
            if !answer.is_closed() {
                #[cfg(test)]
                hashed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                drop(answer.send(work()));
            }
        };
        self.jobs.try_send(Box::new(job)).map_err(|_| {
            let text = "too many people sign in right now; try again";
            ApiError::new(ErrorCode::ServiceUnavailable, text).with_retry_after(RETRY_AFTER)
        })?;
        let failed = || Error::internal("a thread that hashes passwords failed");
        #[cfg(test)]
        {
            // A clock that is paused stands still while something blocks.
            let blocking = tokio::task::spawn_blocking(move || answered.blocking_recv());
            blocking.await.map_err(|_| failed())?.map_err(|_| failed())
        }
        #[cfg(not(test))]
        answered.await.map_err(|_| failed())
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

fn work(waiting: &Mutex<mpsc::Receiver<Job>>) {
    if let Err(error) = ThreadPriority::Min.set_for_current() {
        tracing::warn!(%error, "hashing passwords runs at the priority of everything else");
    }
    loop {
        let job = waiting.lock().blocking_recv();
        let Some(job) = job else { return };
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("hashing a password panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use futures::future::join_all;
    use thesis_net::clock::SystemIdSource;

    use super::*;

    const PASSWORD: &str = "correct horse battery";

    #[tokio::test]
    async fn a_hash_is_of_one_password_with_its_own_salt() {
        let passwords = Passwords::new();
        let hash = passwords.hash(PASSWORD, &SystemIdSource).await.unwrap();
        let other = passwords.hash(PASSWORD, &SystemIdSource).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_eq!(hash.len(), NO_PASSWORD.len());
        assert_ne!(hash, other);
        assert!(passwords.verify(PASSWORD, hash.clone()).await.unwrap());
        assert!(!passwords.verify("correct horse batterY", hash).await.unwrap());
        assert!(!passwords.verify(PASSWORD, NO_PASSWORD.to_owned()).await.unwrap());
        assert!(passwords.verify(PASSWORD, "damaged".to_owned()).await.is_err());
    }

    #[tokio::test]
    async fn more_than_32_do_not_wait() {
        let passwords = Passwords::new();
        let all = (0..100).map(|_| passwords.verify(PASSWORD, NO_PASSWORD.to_owned()));
        let refused: Vec<_> = join_all(all).await.into_iter().filter_map(Result::err).collect();
        let hashed = passwords.hashed.load(Ordering::SeqCst);
        assert_eq!(hashed + refused.len(), 100);
        assert!(hashed >= MOST_WAITING && !refused.is_empty(), "{hashed}");
        let error = &refused[0].api;
        assert_eq!((error.code, error.retry_after), (ErrorCode::ServiceUnavailable, Some(1)));
    }
}

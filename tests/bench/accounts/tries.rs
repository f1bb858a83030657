//! Sign-ins at a fixed rate, whether or not the last ones were answered: half of them with the right password, half of
//! e-mails that nobody has.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep},
};
use tonic::Code;

use super::People;

/// Time until as many wait as will.
const WARM_UP: Duration = Duration::from_secs(3);
/// How often it is looked whether all are answered.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Counts {
    is_on: AtomicBool,
    under_way: AtomicUsize,
    tried: AtomicUsize,
    signed_in: AtomicUsize,
    refused: AtomicUsize,
    busy: AtomicUsize,
    others: AtomicUsize,
}

/// Sign-ins at a fixed rate, while they are on.
pub(super) struct Tries {
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

impl Tries {
    /// Sign-ins to accounts, at a rate a second. They are off at first.
    pub(super) fn start(people: &People, accounts: usize, rate: u32) -> Self {
        let counts = Arc::new(Counts::default());
        let (people, shared) = (people.clone(), Arc::clone(&counts));
        let task = tokio::spawn(async move {
            let mut every = interval(Duration::from_secs(1) / rate);
            every.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                every.tick().await;
                if shared.is_on.load(Relaxed) {
                    let number = shared.tried.fetch_add(1, Relaxed);
                    shared.under_way.fetch_add(1, Relaxed);
                    tokio::spawn(attempt(people.clone(), Arc::clone(&shared), number, accounts));
                }
            }
        });
        Self { counts, task }
    }

    /// Begins them and lets them come to their height, or ends them and waits until all are answered.
    pub(super) async fn set(&self, on: bool) {
        self.counts.is_on.store(on, Relaxed);
        if on {
            sleep(WARM_UP).await;
        } else {
            while self.counts.under_way.load(Relaxed) > 0 {
                sleep(POLL_INTERVAL).await;
            }
        }
    }

    /// How they were answered.
    pub(super) fn told(&self) -> String {
        let [tried, signed_in, refused, busy, others] =
            [&self.counts.tried, &self.counts.signed_in, &self.counts.refused, &self.counts.busy, &self.counts.others]
                .map(|count| count.load(Relaxed));
        format!(
            "Of {tried} sign-ins {signed_in} succeeded, {refused} were refused for their password, {busy} because too \
             many waited, {others} otherwise."
        )
    }
}

impl Drop for Tries {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn attempt(people: People, counts: Arc<Counts>, number: usize, accounts: usize) {
    let outcome =
        if number.is_multiple_of(2) { people.sign_in(number / 2 % accounts).await } else { people.guess(number).await };
    let count = match outcome.map_err(|status| status.code()) {
        Ok(()) => &counts.signed_in,
        Err(Code::Unauthenticated) => &counts.refused,
        Err(Code::Unavailable) => &counts.busy,
        Err(_) => &counts.others,
    };
    count.fetch_add(1, Relaxed);
    counts.under_way.fetch_sub(1, Relaxed);
}

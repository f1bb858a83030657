//! Accounts, and people who sign in to them, each time from another address: addresses have limits of their own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::try_join_all;
use thesis_proto::{metadata::CLIENT_ADDRESS, v1};
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::{
    Failure,
    calls::{self, Accounts},
    process::Service,
};

const PASSWORD: &str = "the password of the benchmark";

/// People who speak to a service.
#[derive(Clone)]
pub(super) struct People {
    accounts: Accounts,
    addresses: Arc<AtomicU32>,
}

fn email(account: usize) -> String {
    format!("person{account}@people.example")
}

impl People {
    /// People who speak to a service.
    pub(super) async fn of(service: &Service) -> Result<Self, Failure> {
        Ok(Self { accounts: calls::accounts(service).await?, addresses: Arc::default() })
    }

    /// A request from an address that was not used before.
    fn anywhere<M>(&self, message: M) -> Result<Request<M>, Status> {
        let [_, a, b, c] = self.addresses.fetch_add(1, Relaxed).to_be_bytes();
        let address = format!("10.{a}.{b}.{c}").parse().map_err(|_| Status::internal("an address is no text"))?;
        let mut request = Request::new(message);
        request.metadata_mut().insert(CLIENT_ADDRESS, address);
        Ok(request)
    }

    /// Makes accounts.
    pub(super) async fn sign_up(&self, accounts: usize) -> Result<(), Failure> {
        for account in 0..accounts {
            let request = v1::SignUpRequest {
                email: email(account),
                password: PASSWORD.to_owned(),
                organization_name: "Benchmark".to_owned(),
                user_agent: None,
            };
            self.accounts.clone().sign_up(self.anywhere(request)?).await?;
        }
        Ok(())
    }

    /// Signs in to an account.
    pub(super) async fn sign_in(&self, account: usize) -> Result<(), Status> {
        self.attempt(email(account), PASSWORD).await
    }

    /// Tries an e-mail that nobody has, each time another.
    pub(super) async fn guess(&self, number: usize) -> Result<(), Status> {
        self.attempt(format!("nobody{number}@people.example"), "a password that is wrong").await
    }

    async fn attempt(&self, email: String, password: &str) -> Result<(), Status> {
        let request = v1::SignInRequest { email, password: password.to_owned(), user_agent: None, device: None };
        self.accounts.clone().sign_in(self.anywhere(request)?).await.map(drop)
    }

    /// Signs in again and again, a number at once; gives the seconds and the time of each.
    pub(super) async fn sign_in_for(&self, seconds: f64, at_once: usize) -> Result<(f64, Vec<Duration>), Failure> {
        let started = Instant::now();
        let until = started + Duration::from_secs_f64(seconds);
        let tasks = (0..at_once).map(|first| {
            let people = self.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let began = Instant::now();
                    if began >= until && !times.is_empty() {
                        return Ok::<_, Status>(times);
                    }
                    people.sign_in((first + times.len() * at_once) % super::ACCOUNTS).await?;
                    times.push(began.elapsed());
                }
            })
        });
        let times: Result<Vec<Vec<Duration>>, Status> = try_join_all(tasks).await?.into_iter().collect();
        Ok((started.elapsed().as_secs_f64(), times?.concat()))
    }
}

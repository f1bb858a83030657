//! Random writes to live, the sandbox and three projects, and every answer compared with a naive recount in memory: no
//! answer shows a row, count, candidate, search hit or event of a dataset that its key does not see, and none lacks one
//! that it should show.
//!
//! A round writes to all datasets and then asks from five keys at once (one of each project, a live one, one that sees
//! the sandbox alone), over REST and gRPC at random; cursors of lists, histories and streams are kept from round to
//! round. Rounds last about 20 seconds on each store. `RECOUNT_SEED` repeats a run that failed, `RECOUNT_ROUNDS` is the
//! number of rounds; choices depend on the seed alone, the service's own times do not.

mod base;
mod caller;
mod customer;
mod history;
mod lists;
mod log;
mod names;
mod observe;
mod random;
mod searches;
mod singles;
mod streams;
mod verdicts;
mod view;
mod world;
mod writes;

use futures::future::join_all;
use thesis_proto::v1::Environment;

use self::{
    caller::{Ask, Caller, Failure},
    customer::Customer,
    random::Random,
    view::{DAY_MS, Sight},
    world::{LIVE, PROJECTS, SANDBOX, World},
    writes::Writer,
};
use crate::harness::{ALL_SCOPES, Project, Service, now_ms};

/// Longest time of all rounds, unless their number is given: one starts only if it is likely to end in time.
const BUDGET_MS: u64 = 20_000;
/// Most observations of a dataset at the start, and in each round.
const FIRST: usize = 40;
const LATER: usize = 12;
/// Questions of a key in a round.
const QUESTIONS: usize = 22;

#[tokio::test]
async fn every_answer_equals_a_recount_on_the_embedded_store() {
    every_answer_equals_a_recount(&mut Service::embedded(|setup| setup), false).await;
}

#[tokio::test]
async fn every_answer_equals_a_recount_on_a_restored_copy() {
    every_answer_equals_a_recount(&mut Service::embedded(|setup| setup), true).await;
}

#[tokio::test]
async fn every_answer_equals_a_recount_on_a_cluster() {
    if let Some(mut service) = Service::cluster().await {
        every_answer_equals_a_recount(&mut service, false).await;
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Prints how to repeat a failed run.
struct Told {
    seed: u64,
    round: u64,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed in round {} of RECOUNT_SEED={}", self.round, self.seed);
        }
    }
}

async fn customer(
    name: &'static str,
    service: &Service,
    project: &Project,
    environment: Environment,
    sight: (&[usize], i64),
    random: &mut Random,
) -> Customer {
    let key = project.key(environment, ALL_SCOPES).await;
    Customer {
        name,
        caller: Caller { key: key.raw, rest: key.client, grpc: service.channel() },
        sight: Sight { datasets: sight.0.to_vec(), days: sight.1 },
        random: random.fork(),
        lists: Vec::new(),
        histories: Vec::new(),
        streams: Vec::new(),
        ahead: Default::default(),
    }
}

/// The keys: of three projects, of live, and of a customer with no data of their own.
async fn customers(service: &Service, projects: &[Project; 3], random: &mut Random) -> Vec<Customer> {
    let (test, live) = (Environment::Test, Environment::Live);
    projects[2].approve().await;
    let onlooker = service.project_on("huge").await;
    vec![
        customer("a year's", service, &projects[0], test, (&[SANDBOX, PROJECTS], 365), random).await,
        customer("a month's", service, &projects[1], test, (&[SANDBOX, PROJECTS + 1], 30), random).await,
        customer("a week's", service, &projects[2], test, (&[SANDBOX, PROJECTS + 2], 7), random).await,
        customer("the live key", service, &projects[2], live, (&[LIVE], 7), random).await,
        customer("the onlooker", service, &onlooker, test, (&[SANDBOX], 365), random).await,
    ]
}

/// With `moves`, the service is killed after the first round, and a restored copy goes on in its place.
async fn every_answer_equals_a_recount(service: &mut Service, moves: bool) {
    let started = now_ms();
    let seed = setting("RECOUNT_SEED").unwrap_or_else(|| started.unsigned_abs());
    let mut told = Told { seed, round: 0 };
    let mut random = Random::new(seed);
    let projects =
        [service.project_on("huge").await, service.project_on("month").await, service.project_on("week").await];
    let mut customers = customers(service, &projects, &mut random).await;
    let mut world = World::new(&projects.each_ref().map(Project::dataset));
    base::take_in(&mut world, customers.last().expect("the onlooker")).await;
    log::learn(&mut world, &mut customers, [0, now_ms()]).await;
    for customer in &mut customers {
        customer.open_streams(&world).await;
    }
    let past = vec![Vec::new(); world.datasets.len()];
    let mut writer = Writer { random: random.fork(), seen_at: started - 60 * DAY_MS, past };
    let rounds = setting("RECOUNT_ROUNDS");
    // At least two rounds, so that everything kept is used once.
    let goes_on = |round: u64| round < 2 || (now_ms() - started).unsigned_abs() * (round + 1) / round < BUDGET_MS;
    while rounds.map_or_else(|| goes_on(told.round), |rounds| told.round < rounds) {
        told.round += 1;
        if moves && told.round == 2 {
            service.move_to_restored_copy().await;
            for customer in &mut customers {
                customer.begin_anew(&world).await;
            }
        }
        let size = if told.round == 1 { FIRST } else { LATER };
        let within = writer.write(service, &mut world, &customers, size).await;
        log::learn(&mut world, &mut customers, within).await;
        service.ingest("live", Vec::new()).await;
        let foreign = Foreign::of(&customers);
        join_all(customers.iter_mut().map(|customer| customer.ask_all(&world, &foreign))).await;
        log::learn(&mut world, &mut customers, within).await;
    }
    for rows in &world.datasets {
        let log = service.check_log(&rows.name).await;
        assert_eq!((log.gaps, log.duplicates), (0, 0), "{}", rows.name);
    }
    println!("{} rounds of RECOUNT_SEED={seed} in {} ms", told.round, now_ms() - started);
}

/// Cursors, each with the datasets that its key sees.
#[derive(Default)]
struct Foreign {
    lists: Vec<(Vec<usize>, Ask)>,
    streams: Vec<(Vec<usize>, String)>,
}

impl Foreign {
    fn of(customers: &[Customer]) -> Self {
        let mut all = Self::default();
        for customer in customers {
            let seen = || customer.sight.datasets.clone();
            let lists = customer.lists.iter().map(lists::ListWalk::stolen);
            let histories = customer.histories.iter().map(history::HistoryWalk::stolen);
            all.lists.extend(lists.chain(histories).map(|ask| (seen(), ask)));
            let streams = customer.streams.iter().filter_map(streams::Kept::cursor);
            all.streams.extend(streams.map(|cursor| (seen(), cursor.clone())));
        }
        all
    }
}

impl Customer {
    /// After a restore: what goes on by positions in the logs is refused, and begins anew. Lists go on.
    async fn begin_anew(&mut self, world: &World) {
        for walk in std::mem::take(&mut self.histories) {
            self.expect(&walk.stolen(), |_| Err(Failure::of("INVALID_CURSOR"))).await;
        }
        for kept in std::mem::take(&mut self.streams) {
            if let Some(cursor) = kept.cursor() {
                self.refuses_stream(cursor).await;
            }
        }
        self.open_streams(world).await;
    }

    /// A round's questions.
    async fn ask_all(&mut self, world: &World, foreign: &Foreign) {
        for _ in 0..QUESTIONS {
            match self.random.below(22) {
                0..=3 => self.start_list(world).await,
                4..=6 => self.go_on(world).await,
                7 => self.misuse_cursors(&foreign.lists).await,
                8 | 9 => self.one_thesis(world).await,
                10 | 11 => self.one_profile(world).await,
                12..=14 => self.one_token(world).await,
                15 | 16 => self.verify(world).await,
                17 => self.start_history(world).await,
                18 => self.look_back(world).await,
                19 => self.one_event(world).await,
                20 => self.search(world).await,
                _ => self.misuse_stream(&foreign.streams).await,
            }
        }
        self.resume(world).await;
    }
}

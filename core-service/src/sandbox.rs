//! Fills the sandbox once, and runs its ticker.

pub mod fixtures;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use self::fixtures::{CHAIN, FixtureThesis, PROFILES, TOKENS};
use crate::{
    domain::{
        account::Actor,
        control::{ControlChange, SandboxSeed},
        dataset::Dataset,
        event_id::thesis_event_id,
        id,
        observation::{Observation, ObservedThing},
        row::{Age, NewThesis, Profile, Thesis, Token, Wallet},
        window::DAY_MS,
    },
    error::Result,
    log::{datasets::Datasets, projection::ROWS},
    shared::Shared,
    store::Consistency,
    tables::{index_scope::IndexScope, log::decode, theses::IndexSlice},
};

/// Prefix of the upstream ids of the ticker's theses.
const TICKED: &str = "sbx_tick_";
/// Lifetime of a ticker's thesis.
const KEPT_MS: i64 = 30 * DAY_MS;
/// Theses of the sandbox that one check reads.
const LOOKED_AT: usize = 200;

/// 1 January 2025, the creation of the first fixture account.
const FIRST_ACCOUNT_MS: i64 = 1_735_689_600_000;

fn profile(index: usize, seed: SandboxSeed) -> Profile {
    let fixture = &PROFILES[index];
    let first_seen_at = seed.at - 7 * DAY_MS;
    let wallet =
        |address: &str| Wallet { address: address.to_owned(), network: CHAIN.to_owned(), observed_at: first_seen_at };
    Profile {
        id: id::of_profile("sandbox", fixture.upstream_user_id),
        upstream_id: fixture.upstream_user_id.to_owned(),
        handle: fixture.handle.to_owned(),
        display_name: Some(fixture.display_name.to_owned()),
        avatar_url: fixture.avatar_url.map(str::to_owned),
        profile_url: fixture.profile_url.map(str::to_owned),
        bio: fixture.bio.map(str::to_owned),
        verified: Some(fixture.verified),
        created_at: i64::try_from(index).ok().map(|index| FIRST_ACCOUNT_MS + index * 17 * DAY_MS),
        first_seen_at,
        updated_at: first_seen_at,
        source_updated_at: Some(first_seen_at),
        wallets: fixture.wallet.map(wallet).into_iter().collect(),
        age: Some(Age::own(None, first_seen_at)),
        wallets_age: Some(Age::own(None, first_seen_at)),
    }
}

fn token(index: usize, seed: SandboxSeed) -> Token {
    let fixture = &TOKENS[index];
    let first_seen_at = seed.at - 7 * DAY_MS;
    Token {
        id: id::of_token("sandbox", CHAIN, fixture.address),
        symbol: fixture.symbol.to_owned(),
        name: Some(fixture.name.to_owned()),
        chain: CHAIN.to_owned(),
        chain_id: None,
        address: fixture.address.to_owned(),
        logo_url: fixture.logo_url.map(str::to_owned),
        platform_url: fixture.platform_url.map(str::to_owned),
        first_seen_at,
        updated_at: first_seen_at,
        source_updated_at: Some(first_seen_at),
        age: Some(Age::own(None, first_seen_at)),
    }
}

/// A profile and a token of the sandbox, for synthetic events.
pub fn a_profile_and_token() -> (Profile, Token) {
    let seed = SandboxSeed { at: FIRST_ACCOUNT_MS };
    (profile(0, seed), token(0, seed))
}

const SEEDED: &str = "sbx_seed_";

fn thesis_id(kind: &str, number: u64) -> String {
    id::of_thesis("sandbox", &format!("{kind}{number}"))
}

fn new_thesis(kind: &str, fixture: FixtureThesis, created_at: i64, at: Option<i64>, seed: SandboxSeed) -> NewThesis {
    let (profile, token) = (profile(fixture.profile, seed), token(fixture.token, seed));
    let thesis = Thesis {
        id: thesis_id(kind, fixture.number),
        upstream_id: format!("{kind}{}", fixture.number),
        profile_id: profile.id.clone(),
        token_id: token.id.clone(),
        chain: token.chain.clone(),
        text: fixture.text,
        likes: Some(fixture.likes),
        replies: Some(fixture.replies),
        created_at,
        updated_at: created_at,
        ..Thesis::default()
    };
    NewThesis { thesis, profile, token, test: false, at, trace: Vec::new(), max_theses: None }
}

/// Creates the fixtures of the seven days before the very first start of any core. It is idempotent, also when two
/// cores do it: ids and times are the same. A sandbox with a running import stays unchanged.
pub async fn seed(shared: &Shared, datasets: &Arc<Datasets>) -> Result<()> {
    let theses = fixtures::seeded();
    let Some(last) = theses.last() else { return Ok(()) };
    let last_id = thesis_event_id(&thesis_id(SEEDED, last.number));
    let sandbox = Dataset::Sandbox.to_string();
    if is_importing(shared, &sandbox).await? {
        tracing::warn!("the sandbox is being imported: it gets no fixtures before a start after the import has ended");
        return Ok(());
    }
    let done = shared.event_positions.position_of(&sandbox, &last_id).await?;
    let now = match done {
        // The fixtures were created here or, before an import, at another installation.
        Some(seq) => laid_out_at(shared, &sandbox, seq, last.age_ms).await?,
        None => shared.clock.now_ms(),
    };
    let seed = shared
        .control
        .change(Actor::service().does("sandbox.set_up"), |state| match state.seed() {
            Some(seed) => Ok((Vec::new(), seed)),
            None => Ok((vec![ControlChange::SandboxSeed(SandboxSeed { at: now })], SandboxSeed { at: now })),
        })
        .await?;
    if done.is_some() {
        return Ok(());
    }
    // The writer processes them in the order of the calls, which is the order of their times.
    let written = theses.into_iter().map(|fixture| {
        let created_at = seed.at - fixture.age_ms;
        datasets.create_here(&Dataset::Sandbox, new_thesis(SEEDED, fixture, created_at, Some(created_at), seed))
    });
    // A task without budget left would call some of them later.
    tokio::task::unconstrained(futures::future::try_join_all(written)).await?;
    Ok(())
}

async fn is_importing(shared: &Shared, sandbox: &str) -> Result<bool> {
    let Some(import) = shared.log.import(sandbox).await? else { return Ok(false) };
    let projected = shared.log.checkpoint(sandbox, ROWS).await?;
    Ok(shared.log.head(sandbox, projected, Consistency::Quorum).await? < import.entries)
}

/// Returns the time at which the fixtures were created, from the last of them.
async fn laid_out_at(shared: &Shared, sandbox: &str, seq: u64, age_ms: i64) -> Result<i64> {
    let entry = shared.log.get(sandbox, seq).await?.map(|body| decode(seq, body)).transpose()?;
    Ok(entry.map_or_else(|| shared.clock.now_ms(), |entry| entry.created_at + age_ms))
}

/// Posts a thesis at every whole multiple of the interval. Its ids follow from the number of the tick, so that several
/// cores post it once.
pub async fn tick(shared: Arc<Shared>, datasets: Arc<Datasets>, stop: CancellationToken, seconds: u32) {
    let interval = i64::from(seconds) * 1_000;
    if interval == 0 {
        return;
    }
    let mut passed = None;
    loop {
        let now = shared.clock.now_ms();
        let number = now.div_euclid(interval) + 1;
        let wait = Duration::from_millis((number * interval - now).unsigned_abs());
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        if let Err(error) = post(&shared, &datasets, number, interval).await {
            tracing::warn!(%error, number, "a tick of the sandbox failed");
        }
        if let Err(error) = expire(&shared, &datasets, &mut passed).await {
            tracing::warn!(%error, "deleting old ticks of the sandbox failed, trying again");
        }
    }
}

async fn post(shared: &Shared, datasets: &Arc<Datasets>, number: i64, interval: i64) -> Result<()> {
    let Some(seed) = shared.control.state().seed() else { return Ok(()) };
    let fixture = fixtures::tick(number.unsigned_abs());
    let new = new_thesis(TICKED, fixture, number * interval, None, seed);
    datasets.create_thesis(&Dataset::Sandbox, new).await?;
    Ok(())
}

/// Deletes a page of the ticker's expired theses, as an upstream would. `passed` is the start of the next page: before
/// it are only theses that stay, and empty lists.
async fn expire(shared: &Shared, datasets: &Arc<Datasets>, passed: &mut Option<(i64, String)>) -> Result<()> {
    if !datasets.owns(&Dataset::Sandbox) {
        return Ok(());
    }
    let now = shared.clock.now_ms();
    let old = IndexSlice { from: 0, to: now - KEPT_MS - 1, after: passed.clone(), descending: false };
    let rows = shared.theses.slice(&Dataset::Sandbox, &IndexScope::All, &old, LOOKED_AT).await?;
    let Some(last) = rows.last() else { return Ok(()) };
    let keys: Vec<(&str, &str)> = rows.iter().map(|row| (Dataset::SANDBOX_NAME, row.id.as_str())).collect();
    let theses = shared.theses.theses(&keys).await?;
    let ticked = theses.iter().flatten().filter(|thesis| thesis.upstream_id.starts_with(TICKED));
    let deleted = ticked.map(|thesis| {
        let seen = ObservedThing::Deletion(thesis.upstream_id.clone());
        datasets.observe_here(&Dataset::Sandbox, Observation { observed_at: now, revision: None, seen })
    });
    futures::future::try_join_all(deleted).await?;
    *passed = Some((last.created_at, last.id.clone()));
    Ok(())
}

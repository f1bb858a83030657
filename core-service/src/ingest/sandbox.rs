//! Lays out the sandbox once, and lets its ticker post.

use std::{sync::Arc, time::Duration};

use super::fixtures::{self, CHAIN, FixtureThesis, PROFILES, TOKENS};
use crate::{
    domain::{
        control::{ControlChange, SandboxSeed},
        dataset::Dataset,
        id,
        row::{Profile, Thesis, Token, Wallet},
        window::DAY_MS,
    },
    key,
    service::{
        core::Core,
        error::Result,
        writer::{NewThesis, thesis_event_id},
    },
    store::{Consistency, tables},
};

/// The fixtures' accounts were made on days from 1 January 2025.
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
        version: first_seen_at,
        observed_at: first_seen_at,
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
        version: first_seen_at,
        observed_at: first_seen_at,
    }
}

fn thesis_id(kind: &str, number: u64) -> String {
    id::of_thesis("sandbox", &format!("sbx_{kind}_{number}"))
}

fn new_thesis(kind: &str, fixture: FixtureThesis, created_at: i64, at: Option<i64>, seed: SandboxSeed) -> NewThesis {
    let (profile, token) = (profile(fixture.profile, seed), token(fixture.token, seed));
    let thesis = Thesis {
        id: thesis_id(kind, fixture.number),
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
    NewThesis { thesis, profile, token, test: false, at }
}

/// Lays out the fixtures of the seven days before the first start of all, whichever core that was. Doing it again, or
/// twice at once, changes nothing: ids and times are the same.
///
/// # Errors
/// When the store does not answer.
pub async fn seed(core: &Core) -> Result<()> {
    let now = core.shared.clock.now_ms();
    let seed = core
        .shared
        .control
        .change(|state| match state.seed() {
            Some(seed) => Ok((Vec::new(), seed)),
            None => Ok((vec![ControlChange::SandboxSeed(SandboxSeed { at: now })], SandboxSeed { at: now })),
        })
        .await?;
    let theses = fixtures::seeded();
    let Some(last) = theses.last() else { return Ok(()) };
    let last = thesis_event_id(&thesis_id("seed", last.number));
    let sandbox = Dataset::Sandbox.to_string();
    let done = core.shared.backend.get(&tables::EVENT, &key![&sandbox, &last], Consistency::Quorum).await?;
    if done.is_some() {
        return Ok(());
    }
    // The writer takes them in the order in which they are left, which is the order of their times.
    let writer = core.datasets.writer(&Dataset::Sandbox);
    let written = theses.into_iter().map(|fixture| {
        let created_at = seed.at - fixture.age_ms;
        writer.create_thesis(new_thesis("seed", fixture, created_at, Some(created_at), seed))
    });
    // A task that has used up its budget would leave some of them for later.
    tokio::task::unconstrained(futures::future::try_join_all(written)).await?;
    Ok(())
}

/// Posts a thesis at every whole multiple of the interval; its ids follow from the tick's number, so that several cores
/// post it once.
pub async fn tick(core: Arc<Core>, seconds: u32) {
    let interval = i64::from(seconds) * 1_000;
    if interval == 0 {
        return;
    }
    loop {
        let now = core.shared.clock.now_ms();
        let number = now.div_euclid(interval) + 1;
        let wait = Duration::from_millis((number * interval - now).unsigned_abs());
        if core.stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        let Some(seed) = core.shared.control.state().seed() else { continue };
        let fixture = fixtures::tick(number.unsigned_abs());
        let new = new_thesis("tick", fixture, number * interval, None, seed);
        if let Err(error) = core.datasets.create_thesis(&Dataset::Sandbox, new).await {
            tracing::warn!(%error, number, "a tick of the sandbox failed");
        }
    }
}

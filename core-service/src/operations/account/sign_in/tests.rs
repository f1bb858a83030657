//! Limits of sign-ins. They are exact, they do not reveal who has an account, and strangers lock no user out for long.

use std::{
    sync::{atomic::Ordering, mpsc},
    thread,
    time::Duration,
};

use futures::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt as _},
};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::*;
use crate::{
    domain::window::HOUR_MS,
    operations::account::{change_password::change_password, sign_up::sign_up},
    tests::harness::{ManualClock, core, shared_memory},
};

const EMAIL: &str = "Ada@Example.com";
const STRANGER: &str = "nobody@example.com";
const PASSWORD: &str = "correct horse battery";
const WRONG: &str = "wrong horse battery";
/// The network of the sign-up.
const HOME: &str = "192.0.2.1";
const AWAY: &str = "198.51.100.1";

async fn two() -> (Arc<ManualClock>, [Arc<Core>; 2]) {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let cores = [core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await];
    (clock, cores)
}

/// Signs up at home.
async fn signed_up(core: &Core) -> v1::NewSession {
    let request = v1::SignUpRequest {
        email: EMAIL.to_owned(),
        password: PASSWORD.to_owned(),
        organization_name: "Engines".to_owned(),
        user_agent: None,
    };
    sign_up(core, Some(HOME), &request).await.unwrap().session.unwrap()
}

/// Signs in from an address, on a device if it has a token.
async fn attempt(core: &Core, from: (&str, Option<&str>), email: &str, password: &str) -> Result<v1::NewSession> {
    let (email, password) = (email.to_owned(), password.to_owned());
    let request = v1::SignInRequest { email, password, user_agent: None, device: from.1.map(str::to_owned) };
    Ok(sign_in(core, Some(from.0), &request).await?.session.unwrap())
}

fn changing(current: &str, new: &str) -> v1::ChangePasswordRequest {
    v1::ChangePasswordRequest { current_password: current.to_owned(), password: new.to_owned(), user_agent: None }
}

fn code<T>(outcome: Result<T>) -> Option<ErrorCode> {
    outcome.err().map(|error| error.api.code)
}

/// Occupies all threads that hash passwords until the sender is dropped.
async fn occupied(core: &Arc<Core>) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let threads = (thread::available_parallelism().map_or(1, usize::from) / 2).max(1);
    for number in 0..threads {
        let (core, gate, started) = (Arc::clone(core), Arc::clone(&gate), started.clone());
        tokio::spawn(async move {
            let subject = format!("thread {number}");
            let work = move || {
                started.send(()).unwrap();
                gate.lock().recv().is_err()
            };
            core.accounts.passwords.run(Requester { subject: &subject, address: None, is_known: true }, work).await
        });
    }
    for _ in 0..threads {
        starts.recv().await.unwrap();
    }
    open
}

fn hashed(core: &Core) -> usize {
    core.accounts.passwords.hashed.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_thousand_wrong_tries_from_many_networks_keep_no_user_out() {
    let (clock, [one, other]) = two().await;
    let device = signed_up(&one).await.device;
    let mut outcomes = Vec::new();
    for email in [STRANGER, EMAIL] {
        let mut errors = Vec::new();
        for number in 0..1_000 {
            let address = format!("10.0.{}.{}", number / 250, number % 250);
            errors.push(attempt(&one, (address.as_str(), None), email, WRONG).await.unwrap_err().api);
        }
        let (failed, limited) = errors.split_at(11);
        assert!(failed.iter().all(|error| error.code == ErrorCode::SignInFailed), "ten, and one at the pace");
        assert!(limited.iter().all(|error| error.code == ErrorCode::RateLimited && error.retry_after == Some(1)));
        outcomes.push(errors);
    }
    assert_eq!(outcomes[0], outcomes[1], "nothing tells which accounts exist");

    // The network and the device of the sign-up do not notice it.
    attempt(&other, (HOME, None), EMAIL, PASSWORD).await.unwrap();
    let same_device = attempt(&other, (AWAY, Some(device.as_str())), EMAIL, PASSWORD).await.unwrap().device;
    assert_eq!(same_device, device);
    // A new device waits for the pace, not for the hour. A token of nobody's makes no difference.
    let new = ("198.51.100.2", Some("dev_0123456789"));
    assert_eq!(code(attempt(&other, new, EMAIL, PASSWORD).await), Some(ErrorCode::RateLimited));
    clock.advance(2_000);
    let new_device = attempt(&other, new, EMAIL, PASSWORD).await.unwrap().device;
    assert!(new_device.starts_with("dev_") && new_device != device);
    // The pace is that of one account.
    assert_eq!(code(attempt(&one, (AWAY, None), "bob@example.com", WRONG).await), Some(ErrorCode::SignInFailed));
}

#[tokio::test]
async fn ten_failures_hold_for_their_own_network_or_device() {
    let (clock, [one, other]) = two().await;
    let device = signed_up(&one).await.device;
    let (at_home, on_device) = ((HOME, None), (AWAY, Some(device.as_str())));
    for from in [at_home, on_device] {
        for _ in 0..10 {
            assert_eq!(code(attempt(&one, from, EMAIL, WRONG).await), Some(ErrorCode::SignInFailed));
        }
        let before = hashed(&other);
        assert_eq!(code(attempt(&other, from, EMAIL, PASSWORD).await), Some(ErrorCode::RateLimited));
        assert_eq!(hashed(&other), before);
        // Others have not failed.
        let others = [(AWAY, None), ("203.0.113.9", None)];
        let devices = if from == at_home { vec![on_device] } else { Vec::new() };
        for other_place in others.into_iter().chain(devices) {
            attempt(&other, other_place, EMAIL, PASSWORD).await.unwrap();
        }
    }
    clock.advance(HOUR_MS);
    for from in [at_home, on_device] {
        attempt(&one, from, EMAIL, PASSWORD).await.unwrap();
    }
}

#[tokio::test]
async fn of_11_wrong_passwords_in_two_waves_on_two_cores_10_are_hashed() {
    let (clock, cores) = two().await;
    signed_up(&cores[0]).await;
    let mut refusals = Vec::new();
    for email in [EMAIL, STRANGER] {
        let before: usize = cores.iter().map(|core| hashed(core)).sum();
        let mut errors = Vec::new();
        // A core hashes four passwords of an account at once.
        for wave in [8, 3] {
            let all = (0..wave).map(|turn| attempt(&cores[turn % 2], (AWAY, None), email, WRONG));
            errors.extend(join_all(all).await.into_iter().filter_map(Result::err));
        }
        errors.sort_by_key(|error| error.api.code.as_str());
        let codes: Vec<_> = errors.iter().map(|error| error.api.code).collect();
        assert_eq!(codes, [vec![ErrorCode::RateLimited], vec![ErrorCode::SignInFailed; 10]].concat());
        assert_eq!(cores.iter().map(|core| hashed(core)).sum::<usize>() - before, 10);
        refusals.push(errors.into_iter().map(|error| error.api).collect::<Vec<_>>());
        clock.advance(60_000);
    }
    assert_eq!(refusals[0], refusals[1], "nothing tells which accounts exist");
    assert_eq!(code(attempt(&cores[0], (AWAY, None), EMAIL, PASSWORD).await), Some(ErrorCode::RateLimited));
    clock.advance(HOUR_MS);
    for _ in 0..15 {
        attempt(&cores[1], (AWAY, None), EMAIL, PASSWORD).await.unwrap();
    }
}

#[tokio::test]
async fn an_account_begins_30_sessions_an_hour() {
    let (clock, [one, other]) = two().await;
    let mut device = signed_up(&one).await.device;
    for _ in 0..30 {
        device = attempt(&one, (HOME, Some(device.as_str())), EMAIL, PASSWORD).await.unwrap().device;
    }
    for from in [(HOME, Some(device.as_str())), (HOME, None), (AWAY, None)] {
        let error = attempt(&other, from, EMAIL, PASSWORD).await.unwrap_err().api;
        assert_eq!(error.code, ErrorCode::RateLimited);
        assert!(error.retry_after.is_some());
    }
    // Whoever does not have the password sees nothing of it.
    assert_eq!(code(attempt(&one, (AWAY, None), EMAIL, WRONG).await), Some(ErrorCode::SignInFailed));
    // A device that goes on is soon refused without a hash.
    for _ in 1..10 {
        assert_eq!(
            code(attempt(&one, (HOME, Some(device.as_str())), EMAIL, PASSWORD).await),
            Some(ErrorCode::RateLimited)
        );
    }
    let before = hashed(&one);
    assert_eq!(code(attempt(&one, (HOME, Some(device.as_str())), EMAIL, PASSWORD).await), Some(ErrorCode::RateLimited));
    assert_eq!(hashed(&one), before);
    clock.advance(HOUR_MS);
    attempt(&one, (HOME, Some(device.as_str())), EMAIL, PASSWORD).await.unwrap();
}

#[tokio::test]
async fn wrong_present_passwords_count_for_their_session() {
    let (_clock, [one, other]) = two().await;
    let begun = [signed_up(&one).await, attempt(&one, (HOME, None), EMAIL, PASSWORD).await.unwrap()];
    let change = |current: &str| changing(current, "another horse battery");
    let mut people = Vec::new();
    for session in &begun {
        people.push(sessions::admit(&other.shared, Some(session.token.as_str()), Some(HOME.to_owned())).await.unwrap());
    }
    for _ in 0..10 {
        let wrong = change_password(&one, &people[0], &change(WRONG)).await;
        assert_eq!(code(wrong), Some(ErrorCode::ValidationFailed));
    }
    assert_eq!(code(change_password(&other, &people[0], &change(PASSWORD)).await), Some(ErrorCode::RateLimited));
    attempt(&one, (AWAY, None), EMAIL, PASSWORD).await.unwrap();
    change_password(&one, &people[1], &change(PASSWORD)).await.unwrap();
}

#[tokio::test]
async fn two_sign_ins_at_once_both_remember_their_device() {
    let (_clock, [one, other]) = two().await;
    signed_up(&one).await;
    let (at_home, away) =
        (attempt(&one, (HOME, None), EMAIL, PASSWORD), attempt(&other, (AWAY, None), EMAIL, PASSWORD));
    let (at_home, away) = tokio::join!(at_home, away);
    for session in [at_home.unwrap(), away.unwrap()] {
        let from = ("203.0.113.9", Some(session.device.as_str()));
        let again = attempt(&one, from, EMAIL, PASSWORD).await.unwrap();
        assert_eq!(again.device, session.device, "a known device keeps its token");
    }
}

#[tokio::test]
async fn one_network_leaves_tries_to_others_however_often_it_polls() {
    let (clock, [one, other]) = two().await;
    signed_up(&one).await;
    // The attacker comes first to each free try.
    let mut addresses = (0..250).map(|number| format!("10.0.0.{number}"));
    for _ in 0..11 {
        let address = addresses.next().unwrap();
        assert_eq!(code(attempt(&one, (address.as_str(), None), EMAIL, WRONG).await), Some(ErrorCode::SignInFailed));
    }
    for step in 0.. {
        let address = addresses.next().unwrap();
        attempt(&one, (address.as_str(), None), EMAIL, WRONG).await.unwrap_err();
        let Err(error) = attempt(&other, (AWAY, None), EMAIL, PASSWORD).await else { break };
        assert!(step < 20, "a user waits for more than the two seconds of the pace");
        assert_eq!(error.api.code, ErrorCode::RateLimited);
        assert!(error.api.message.contains("ask for a link for a new password"), "{}", error.api.message);
        clock.advance(100);
    }
}

#[tokio::test]
async fn a_user_who_waits_for_the_pace_uses_up_no_tries_of_an_office() {
    let (_clock, [one, other]) = two().await;
    signed_up(&one).await;
    for number in 0..11 {
        let address = format!("10.0.{number}.1");
        assert_eq!(code(attempt(&one, (address.as_str(), None), EMAIL, WRONG).await), Some(ErrorCode::SignInFailed));
    }
    for _ in 0..30 {
        assert_eq!(code(attempt(&one, (AWAY, None), EMAIL, PASSWORD).await), Some(ErrorCode::RateLimited));
    }
    // The 20 failures a minute of the address are all there.
    for number in 0..20 {
        let email = format!("colleague{number}@example.com");
        assert_eq!(code(attempt(&other, (AWAY, None), &email, WRONG).await), Some(ErrorCode::SignInFailed));
    }
    let last = attempt(&other, (AWAY, None), "colleague20@example.com", WRONG).await;
    assert_eq!(code(last), Some(ErrorCode::RateLimited));
}

#[tokio::test]
async fn the_devices_of_an_account_share_4_places_of_the_queue_and_so_do_its_networks() {
    let (_clock, [one, _]) = two().await;
    signed_up(&one).await;
    let networks: Vec<String> = (1..=5).map(|number| format!("203.0.113.{number}")).collect();
    let mut devices = Vec::new();
    for network in &networks {
        devices.push(attempt(&one, (network.as_str(), None), EMAIL, PASSWORD).await.unwrap().device);
    }
    let open = occupied(&one).await;
    let on_devices: Vec<_> = devices.iter().map(|device| (AWAY, Some(device.as_str()))).collect();
    let in_networks: Vec<_> = networks.iter().map(|network| (network.as_str(), None)).collect();
    let attempts = |from| attempt(&one, from, EMAIL, WRONG);
    let mut all = [on_devices, in_networks].map(|from| from.into_iter().map(attempts).collect::<FuturesUnordered<_>>());
    // The threads hash no password yet, so the only answer is a refusal.
    for attempts in &mut all {
        let first = timeout(Duration::from_secs(20), attempts.next()).await.expect("the fifth is refused").unwrap();
        assert_eq!(code(first), Some(ErrorCode::RateLimited));
    }
    drop(open);
    for attempts in all {
        let codes: Vec<_> = attempts.map(code).collect().await;
        assert_eq!(codes, [Some(ErrorCode::SignInFailed); 4]);
    }
}

#[tokio::test]
async fn a_new_password_forgets_devices_and_networks() {
    const NEW: &str = "another horse battery";
    let (_clock, [one, other]) = two().await;
    let begun = signed_up(&one).await;
    let away = attempt(&one, (AWAY, None), EMAIL, PASSWORD).await.unwrap();
    let person = sessions::admit(&one.shared, Some(begun.token.as_str()), Some(HOME.to_owned())).await.unwrap();
    let changed = change_password(&one, &person, &changing(PASSWORD, NEW)).await.unwrap().session.unwrap();
    for number in 0..11 {
        let address = format!("10.0.{number}.1");
        assert_eq!(code(attempt(&one, (address.as_str(), None), EMAIL, WRONG).await), Some(ErrorCode::SignInFailed));
    }
    for from in [(AWAY, None), (AWAY, Some(away.device.as_str())), ("203.0.113.9", Some(begun.device.as_str()))] {
        assert_eq!(code(attempt(&other, from, EMAIL, NEW).await), Some(ErrorCode::RateLimited), "{from:?}");
    }
    // The service knows the network and the device of the change.
    attempt(&other, (HOME, None), EMAIL, NEW).await.unwrap();
    attempt(&other, ("203.0.113.9", Some(changed.device.as_str())), EMAIL, NEW).await.unwrap();
}

#[tokio::test]
async fn a_user_changes_the_password_10_times_an_hour() {
    let (clock, [one, other]) = two().await;
    let password = |number: usize| if number == 0 { PASSWORD.to_owned() } else { format!("horse battery {number}") };
    let mut token = signed_up(&one).await.token;
    let admit = async |token: &str| sessions::admit(&one.shared, Some(token), None).await.unwrap();
    for number in 0..10 {
        let (person, change) = (admit(&token).await, changing(&password(number), &password(number + 1)));
        token = change_password(&one, &person, &change).await.unwrap().session.unwrap().token;
    }
    let (person, before) = (admit(&token).await, hashed(&other));
    let eleventh = changing(&password(10), &password(11));
    assert_eq!(code(change_password(&other, &person, &eleventh).await), Some(ErrorCode::RateLimited));
    assert_eq!(hashed(&other), before);
    clock.advance(HOUR_MS);
    change_password(&other, &person, &eleventh).await.unwrap();
}

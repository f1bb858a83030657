//! Limits of tries, which tell nobody who has an account.

use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::AT_ONCE;
use crate::harness::{Person, Service, eventually};

on_both_stores![
    ten_failures_hold_for_their_network,
    strangers_keep_no_user_out,
    an_address_tries_twenty_times_a_minute,
    an_address_signs_up_ten_times_an_hour,
    links_for_a_password_are_limited,
];

const HOUR: u32 = 3_600;

fn is_limited(error: &ApiError, within: u32) {
    assert_eq!(error.code, ErrorCode::RateLimited, "{error:?}");
    assert!(error.retry_after.is_some_and(|seconds| (1..=within).contains(&seconds)), "{error:?}");
}

/// Fails ten times at one place; gives the place and the one error of all tries.
async fn fail_ten_times(person: &Person) -> (Person, ApiError) {
    let place = person.elsewhere();
    let mut errors = Vec::new();
    for _ in 0..10 {
        errors.push(place.fail_to_sign_in("not the right password").await);
    }
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    (place, errors.remove(0))
}

async fn ten_failures_hold_for_their_network(service: &Service) {
    let (owner, _) = service.owner().await;
    let stranger = service.person();
    let (mut owners_place, known) = fail_ten_times(&owner).await;
    let (mut strangers_place, unknown) = fail_ten_times(&stranger).await;
    assert_eq!((known.code, &known), (ErrorCode::SignInFailed, &unknown));

    // For the hour, at every core, with the right password too.
    for _ in &service.cores {
        for place in [&mut owners_place, &mut strangers_place] {
            is_limited(&place.sign_in().await.unwrap_err(), HOUR);
            place.email = place.email.to_uppercase();
            is_limited(&place.sign_in().await.unwrap_err(), HOUR);
        }
    }
    let refused = [&owners_place, &strangers_place].map(|place| place.fail_to_sign_in("not the right password"));
    let [known, unknown] = <[ApiError; 2]>::try_from(futures::future::join_all(refused).await).unwrap();
    let words = |error: &ApiError| error.message.split(|each: char| each.is_ascii_digit()).next().map(str::to_owned);
    assert_eq!((words(&known), known.code), (words(&unknown), unknown.code));
    // A session that has begun goes on, and other places are open.
    assert!(owner.is_signed_in().await);
    owner.elsewhere().sign_in().await.unwrap();
}

async fn strangers_keep_no_user_out(service: &Service) {
    let (mut owner, _) = service.owner().await;
    for number in 0..30 {
        let error = owner.elsewhere().fail_to_sign_in("not the right password").await;
        let is_slow = error.code == ErrorCode::RateLimited && error.retry_after.is_some_and(|seconds| seconds <= 2);
        assert!(error.code == ErrorCode::SignInFailed || (number >= 10 && is_slow), "{number}: {error:?}");
    }
    // Neither where the owner has signed in before, nor on a device of theirs.
    let mut same_network = owner.elsewhere();
    same_network.address.clone_from(&owner.address);
    same_network.sign_in().await.unwrap();
    owner.address = owner.elsewhere().address;
    owner.sign_in().await.unwrap();
    // Others wait for seconds.
    eventually("a new device signs in", 10 * AT_ONCE, async || owner.elsewhere().sign_in().await.ok()).await;
}

async fn an_address_tries_twenty_times_a_minute(service: &Service) {
    let place = service.person();
    // A slow machine may need more than a minute for the first twenty.
    for tried in 0..80 {
        let request = v1::SignInRequest {
            email: format!("{tried}.{}", place.email),
            password: "not the right password".to_owned(),
            user_agent: None,
            device: None,
        };
        let Err(status) = place.ask().sign_in(request).await else { panic!("a stranger has signed in") };
        let error = ApiError::from_status(&status);
        match error.code {
            ErrorCode::SignInFailed => {}
            ErrorCode::ServiceUnavailable => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
            _ => {
                is_limited(&error, 60);
                assert!(tried >= 20, "{tried} tries are not too many");
                // Other addresses go on.
                let other = place.elsewhere().fail_to_sign_in("not the right password").await;
                assert_eq!(other.code, ErrorCode::SignInFailed);
                return;
            }
        }
    }
    panic!("an address may try as often as it wants");
}

async fn an_address_signs_up_ten_times_an_hour(service: &Service) {
    let place = service.person();
    for _ in 0..10 {
        let mut person = service.person();
        person.address.clone_from(&place.address);
        person.sign_up("One of ten").await.unwrap();
    }
    let mut eleventh = service.person();
    let own = std::mem::replace(&mut eleventh.address, place.address.clone());
    is_limited(&eleventh.sign_up("Eleventh").await.unwrap_err(), HOUR);
    eleventh.address = own;
    eleventh.sign_up("Eleventh").await.unwrap();
}

async fn links_for_a_password_are_limited(service: &Service) {
    let (owner, _) = service.owner().await;
    let stranger = service.person();
    // Whoever asks, and for whom: the answers are alike, up to the limit of an address.
    let mut answers = [Vec::new(), Vec::new()];
    for (person, answers) in [&owner, &stranger].into_iter().zip(&mut answers) {
        for _ in 0..25 {
            let request = v1::RequestPasswordResetRequest { email: person.email.clone() };
            let answer = person.ask().request_password_reset(request).await;
            answers.push(answer.map(drop).map_err(|status| ApiError::from_status(&status).code));
        }
    }
    assert_eq!(answers[0], answers[1]);
    let (_, refused) = super::outcomes(&answers[0]);
    assert!(!refused.is_empty() && refused.iter().all(|code| *code == ErrorCode::RateLimited), "{refused:?}");
}

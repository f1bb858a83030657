use thesis_proto::v1::EventFilters;

use super::*;
use crate::{
    domain::{
        id,
        row::{NewThesis, Profile, Thesis, Token},
    },
    tests::harness::{ManualClock, core, memory},
};

fn thesis(dataset: &Dataset, number: usize, author: &str, on: &str, text: &str) -> NewThesis {
    let name = dataset.to_string();
    let profile = Profile { id: id::of_profile(&name, author), handle: format!("@{author}"), ..Profile::default() };
    let token = Token {
        id: id::of_token(&name, "base", on),
        symbol: format!("${on}"),
        chain: "base".to_owned(),
        address: on.to_owned(),
        ..Token::default()
    };
    let thesis = Thesis {
        id: id::of_thesis(&name, &number.to_string()),
        profile_id: profile.id.clone(),
        token_id: token.id.clone(),
        chain: token.chain.clone(),
        text: text.to_owned(),
        ..Thesis::default()
    };
    NewThesis { thesis, profile, token, test: false, at: None, trace: Vec::new(), max_theses: None }
}

fn filter(token: &[&str], handle: &[&str]) -> CompiledFilter {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let filters = EventFilters { token: texts(token), handle: texts(handle), ..EventFilters::default() };
    CompiledFilter::new(&[v1::EventType::ThesisCreated], Some(&filters)).unwrap()
}

#[tokio::test]
async fn reading_on_comes_to_its_end_and_finds_what_matches() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 1).await;
    let dataset = Dataset::of_project("long");
    // Many large entries that the index names and that do not match.
    let large = "x".repeat(60_000);
    for number in 0..60 {
        let (author, on) = if number == 50 { ("rare", "RARE") } else { ("often", "OFTEN") };
        core.datasets.create_thesis(&dataset, thesis(&dataset, number, author, on, &large)).await.unwrap();
    }
    let upto = core.datasets.refresh(&dataset).await.unwrap();
    for (filter, found) in [
        (filter(&[], &["OFTEN"]), 59),
        (filter(&["rare"], &["often"]), 0),
        (filter(&["base:RARE", "$nothing"], &[]), 1),
        (filter(&[], &["nobody"]), 0),
    ] {
        let (mut after, mut events) = (0, 0);
        while after < upto {
            let read = read_forward(&core.shared, &dataset, &filter, after, upto).await.unwrap();
            assert!(read.position > after, "{filter:?} stands still at {after}");
            assert!(read.events.iter().all(|event| event.position > after && event.position <= read.position));
            (after, events) = (read.position, events + read.events.len());
        }
        assert_eq!((after, events), (upto, found), "{filter:?}");
    }
}

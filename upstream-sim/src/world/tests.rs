use std::collections::HashSet;

use super::*;
use crate::response::bytes_of;

const NOW: i64 = 1_700_000_000_000;

fn world(seed: u64) -> World {
    World::new(InitialWorld { seed, profiles: 200, tokens: 120, theses: 400, history_ms: 86_400_000 }, NOW)
}

/// Lives some steps at one time, and gives all frames.
fn live(world: &mut World, steps: usize) -> Vec<String> {
    let mut frames = Vec::new();
    for _ in 0..steps {
        world.live(NOW, &mut |world: &World, event: FeedEvent| {
            let content = world.content(event);
            frames.push(format!("{} {}", content.event, String::from_utf8(content.data).unwrap()));
        });
    }
    frames
}

#[test]
fn a_seed_repeats_the_world_and_its_life() {
    let (mut one, mut same, mut other) = (world(1), world(1), world(2));
    let frames = live(&mut one, 300);
    assert_eq!(frames, live(&mut same, 300));
    assert_ne!(frames, live(&mut other, 300));
    let all = |world: &World| world.theses.all().iter().map(bytes_of).collect::<Vec<_>>();
    assert_eq!(all(&one), all(&same));
}

#[test]
fn all_kinds_of_changes_happen() {
    let mut world = world(3);
    let frames = live(&mut world, 1_000);
    let count = |event: &str| frames.iter().filter(|frame| frame.split(' ').next() == Some(event)).count();
    assert_eq!(count("thesis.created"), 1_000);
    for (event, least, max) in [
        ("thesis.updated", 90, 220),
        ("thesis.deleted", 20, 90),
        ("thesis.engagement", 320, 480),
        ("profile.updated", 10, 60),
        ("token.updated", 5, 45),
    ] {
        assert!((least..=max).contains(&count(event)), "{event}: {}", count(event));
    }
}

#[test]
fn an_edit_comes_first_and_times_only_grow() {
    let mut world = world(4);
    let number = world.theses.all()[10..].iter().find(|thesis| !thesis.deleted).unwrap().number;
    let mut last = world.theses.at(number).updated_at;
    for step in 0..3 {
        match step {
            0 => world.edit(number, "another text".to_owned(), NOW),
            1 => world.engage(number, Some(Some(9)), None, NOW),
            _ => world.delete(number, NOW),
        }
        let thesis = world.theses.at(number);
        assert!(thesis.updated_at > last);
        last = thesis.updated_at;
        for listed in [Listed::Everything, Listed::Author(thesis.author), Listed::Coin(thesis.coin)] {
            let (numbers, _) = world.theses.order(listed).unwrap().page(None, None, 1);
            assert_eq!(numbers, [number], "{listed:?}");
        }
    }
    let thesis = world.theses.at(number);
    assert_eq!((thesis.likes, thesis.deleted, last), (Some(9), true, NOW + 2));
}

#[test]
fn a_thesis_keeps_its_author_as_known_then() {
    let mut world = world(5);
    let number = world.add_thesis(7, 3, "text".to_owned(), NOW, NOW);
    let before = world.profiles.at(7).handle.clone();
    let change = ProfileChange { handle: Some("Somebody_Else".to_owned()), ..ProfileChange::default() };
    world.profiles.change(7, change, NOW);
    assert_eq!(world.theses.at(number).profile.handle, before);
    assert_eq!(world.profiles.by_handle("somebody_ELSE").unwrap().id, "u_8");
    assert!(!world.profiles.is_taken(&before));
    world.edit(number, "another text".to_owned(), NOW);
    assert_eq!(world.theses.at(number).profile.handle, "Somebody_Else");
}

#[test]
fn symbols_clash_and_addresses_do_not() {
    let world = world(6);
    let tokens: Vec<_> = world.tokens.all().iter().collect();
    let clashing = tokens.iter().filter(|token| world.tokens.by_symbol(&token.symbol).count() > 1).count();
    assert!(clashing > 20, "{clashing}");
    let addresses: HashSet<_> = tokens.iter().map(|token| (&token.chain, &token.address)).collect();
    assert_eq!(addresses.len(), tokens.len());
    let hex = tokens.iter().find(|token| token.address.starts_with("0x")).unwrap();
    let shouted = hex.address.to_uppercase();
    assert_eq!(world.tokens.number(&hex.chain, &shouted), world.tokens.number(&hex.chain, &hex.address));
    let sun = tokens.iter().find(|token| token.chain == "solana").unwrap();
    assert_eq!(world.tokens.number("solana", &sun.address.to_lowercase()), None);
}

#[test]
fn handles_are_unique_whatever_their_case() {
    let mut world = world(7);
    live(&mut world, 2_000);
    let handles: HashSet<_> = world.profiles.all().iter().map(|profile| profile.handle.to_lowercase()).collect();
    assert_eq!(handles.len(), world.profiles.len());
    for profile in world.profiles.all() {
        assert_eq!(world.profiles.by_handle(&profile.handle.to_uppercase()).unwrap().id, profile.id);
    }
}

//! No changed receipt is valid. The changes are random, but a fixed seed makes them the same in each run.

#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::{fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use thesis_receipts::{Document, VerifierKey};

const MUTATIONS: usize = 10_000;
const PLAIN: &[u8] = include_bytes!("../../docs/receipts/valid/plain.json");
const EMOJI: &[u8] = include_bytes!("../../docs/receipts/valid/emoji.json");
const FILE: &[u8] = include_bytes!("../../docs/receipts/valid/archive-file.json");
const STATEMENT: &[u8] = include_bytes!("../../docs/receipts/valid/statement.json");

/// A small generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

/// Changes a file: a bit, a byte, or a piece that is removed, repeated or moved.
fn mutate(file: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut mutated, place) = (file.to_vec(), random.below(file.len()));
    let end = (place + 1 + random.below(80)).min(file.len());
    let piece = file[place..end].to_vec();
    match random.below(6) {
        0 => mutated[place] ^= 1 << random.below(8),
        1 => mutated[place] = random.byte(),
        2 => mutated.insert(place, random.byte()),
        3 => drop(mutated.drain(place..end)),
        4 => drop(mutated.splice(place..place, piece)),
        _ => {
            mutated.drain(place..end);
            let to = random.below(mutated.len());
            drop(mutated.splice(to..to, piece));
        }
    }
    mutated
}

#[test]
fn every_random_mutation_is_refused() {
    let files = [PLAIN, EMOJI, FILE, STATEMENT];
    let trusted: Vec<Vec<VerifierKey>> = files.iter().map(|file| keys(file)).collect();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut refused = 0;
    while refused < MUTATIONS {
        let number = random.below(files.len());
        let (file, trusted) = (files[number], &trusted[number]);
        let mutated = mutate(file, &mut random);
        let document = Document::parse(&mutated).ok();
        // Another space between two values, or one more field, leaves the same document.
        if document == Document::parse(file).ok() {
            continue;
        }
        let accepted = document.and_then(|document| document.verify(trusted, &[]).ok());
        assert_eq!(accepted, None, "{}", String::from_utf8_lossy(&mutated));
        refused += 1;
    }
}

/// A change of the list that verifiers in all languages read.
#[derive(Deserialize)]
struct ListedMutation {
    file: String,
    /// Each is a place, the number of bytes that are removed there, and the inserted ones in Base64.
    edits: Vec<(usize, usize, String)>,
}

#[test]
fn every_listed_mutation_is_refused() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/receipts"));
    let listed: Vec<ListedMutation> =
        serde_json::from_slice(&fs::read(folder.join("mutations.json")).unwrap()).unwrap();
    assert_eq!(listed.len(), 1_000);
    for ListedMutation { file, edits } in listed {
        let mut content = fs::read(folder.join(&file)).unwrap();
        let trusted = keys(&content);
        for (place, removed, inserted) in &edits {
            let inserted = BASE64_STANDARD.decode(inserted).unwrap();
            drop(content.splice(*place..*place + *removed, inserted));
        }
        let accepted = Document::parse(&content).ok().and_then(|document| document.verify(&trusted, &[]).ok());
        assert_eq!(accepted, None, "{file} {edits:?}");
    }
}

/// The keys of a valid file.
fn keys(file: &[u8]) -> Vec<VerifierKey> {
    Document::parse(file).unwrap().verify(&[], &[]).unwrap().keys
}

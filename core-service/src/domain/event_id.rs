//! Ids of events. Most of them say where their event is in the log, so the store keeps no row for each:
//!
//! - A creation has the id of its thesis with another prefix. The thesis has the sequence number.
//! - A derived event has its own sequence number, encrypted: customers do not learn how long a log is.
//! - A `profile.updated` derives its id from the observation and has a row. So has a derived event that came with an
//!   import, if its number is encrypted with the key of another store or for another project.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::id;

const PREFIX: &str = "evt_";
const THESIS_PREFIX: &str = "th_";

/// Bytes of the generation's hash, and of the sequence number.
const SALT: usize = 4;
const SEQ: usize = size_of::<u64>();
const PLAIN: usize = SALT + SEQ;
const TAG: usize = 8;

/// The id of the event that a thesis causes. A thesis and its event have one name, so each id gives the other.
pub fn thesis_event_id(thesis_id: &str) -> String {
    format!("{PREFIX}{}", thesis_id.strip_prefix(THESIS_PREFIX).unwrap_or(thesis_id))
}

/// The id of the thesis that causes an event, if it is the event of a thesis.
pub fn thesis_of_event(event_id: &str) -> Option<String> {
    Some(format!("{THESIS_PREFIX}{}", event_id.strip_prefix(PREFIX)?))
}

/// The purpose of a keyed hash. Its number is the first hashed byte.
#[derive(Clone, Copy)]
enum Purpose {
    Salt = 1,
    Tag = 2,
    Mask = 3,
}

/// Makes and reads the ids of derived events: a tag over dataset, number and generation, and these two encrypted under
/// the tag. The same number gives the same id, and an id is read only in its own dataset.
///
/// The generation is in the id because a restored log uses numbers again, and other events must not get the old ids.
/// It is not compared: events of earlier generations stay in the log and are found.
#[derive(Clone)]
pub struct EventIdCipher {
    key: [u8; 32],
    salt: [u8; SALT],
}

impl EventIdCipher {
    pub fn new(key: [u8; 32], generation: &str) -> Self {
        Self { salt: keyed_hash(&key, Purpose::Salt, generation, &[]), key }
    }

    /// The id of the derived event with this sequence number.
    pub fn encrypt(&self, dataset: &str, seq: u64) -> String {
        let mut plain = [0; PLAIN];
        plain[..SALT].copy_from_slice(&self.salt);
        plain[SALT..].copy_from_slice(&seq.to_be_bytes());
        let tag = self.tag(dataset, &plain);
        let mut bytes = [0; TAG + PLAIN];
        bytes[..TAG].copy_from_slice(&tag);
        bytes[TAG..].copy_from_slice(&self.mask(dataset, &tag, plain));
        id::encode(PREFIX, &bytes)
    }

    /// Reads the sequence number in an id. None for every id that this key did not encrypt for the dataset.
    pub fn decrypt(&self, dataset: &str, event_id: &str) -> Option<u64> {
        let bytes: [u8; TAG + PLAIN] = id::decode(event_id.strip_prefix(PREFIX)?)?;
        let (tag, masked) = bytes.split_first_chunk::<TAG>()?;
        let plain = self.mask(dataset, tag, masked.try_into().ok()?);
        let (_, seq) = plain.split_last_chunk::<SEQ>()?;
        (self.tag(dataset, &plain) == *tag).then(|| u64::from_be_bytes(*seq))
    }

    fn tag(&self, dataset: &str, plain: &[u8; PLAIN]) -> [u8; TAG] {
        keyed_hash(&self.key, Purpose::Tag, dataset, plain)
    }

    /// Encrypts plain bytes, and decrypts encrypted ones.
    fn mask(&self, dataset: &str, tag: &[u8; TAG], mut bytes: [u8; PLAIN]) -> [u8; PLAIN] {
        let mask: [u8; PLAIN] = keyed_hash(&self.key, Purpose::Mask, dataset, tag);
        bytes.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        bytes
    }
}

/// The first bytes of a keyed hash. `bytes` has one length for each purpose, so no two inputs are the same.
fn keyed_hash<const N: usize>(key: &[u8; 32], purpose: Purpose, name: &str, bytes: &[u8]) -> [u8; N] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(&[purpose as u8]);
    mac.update(bytes);
    mac.update(name.as_bytes());
    let whole = mac.finalize().into_bytes();
    let mut first = [0; N];
    first.copy_from_slice(&whole[..N]);
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_event_of_a_thesis_and_the_thesis_name_each_other(parts in any::<[String; 2]>()) {
            let [one, other] = parts.clone().map(|part| id::derive(THESIS_PREFIX, &[&part]));
            let event = thesis_event_id(&one);
            prop_assert_eq!(thesis_of_event(&event), Some(one));
            prop_assert_eq!(event == thesis_event_id(&other), parts[0] == parts[1]);
        }

        #[test]
        fn a_number_is_read_only_with_its_key_and_in_its_dataset(seq in any::<u64>(), next in any::<u64>()) {
            let cipher = EventIdCipher::new([1; 32], "gen_1");
            let id = cipher.encrypt("live", seq);
            prop_assert_eq!(cipher.decrypt("live", &id), Some(seq));
            prop_assert_eq!(cipher.encrypt("live", next) == id, seq == next);
            prop_assert_eq!(cipher.decrypt("sandbox", &id), None);
            prop_assert_eq!(EventIdCipher::new([2; 32], "gen_1").decrypt("live", &id), None);
            // After a restore the old ids are read, and the same number gets another one.
            let restored = EventIdCipher::new([1; 32], "gen_2");
            prop_assert_eq!(restored.decrypt("live", &id), Some(seq));
            prop_assert_ne!(restored.encrypt("live", seq), id);
        }

        #[test]
        fn every_text_is_an_id_or_none(text in any::<String>(), id in "evt_[0-9a-z]{30,34}") {
            let cipher = EventIdCipher::new([1; 32], "gen_1");
            prop_assert_eq!(cipher.decrypt("live", &text), None);
            prop_assert_eq!(cipher.decrypt("live", &id), None);
        }
    }

    #[test]
    fn derived_events_have_longer_ids_than_all_others() {
        let cipher = EventIdCipher::new([1; 32], "gen_1");
        let (id, other) = (cipher.encrypt("live", 1), id::derive(PREFIX, &["x"]));
        assert_eq!((id.len(), other.len()), (4 + 32, 4 + 24));
        assert_eq!(cipher.decrypt("live", &other), None);
        let characters = id.char_indices().skip(PREFIX.len());
        for (at, character) in characters {
            let changed = if character == '0' { "1" } else { "0" };
            let changed = format!("{}{changed}{}", &id[..at], &id[at + 1..]);
            assert_eq!(cipher.decrypt("live", &changed), None, "{changed}");
        }
    }

    #[test]
    fn ids_of_multibyte_characters_are_none() {
        let cipher = EventIdCipher::new([1; 32], "gen_1");
        for characters in ["é".repeat(16), format!("0{}0", "é".repeat(15))] {
            assert_eq!(characters.len(), 32);
            assert_eq!(cipher.decrypt("live", &format!("evt_{characters}")), None);
        }
    }
}

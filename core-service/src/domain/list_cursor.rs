//! List cursors: a position in a list, bound to the list and its filters, signed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// Bytes of the truncated signature.
const TAG: usize = 16;

/// Signs and reads list cursors.
#[derive(Clone)]
pub struct CursorSigner {
    key: [u8; 32],
}

impl CursorSigner {
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    fn tag(&self, list: &[u8; 32], position: &[u8]) -> [u8; TAG] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(list);
        mac.update(position);
        let whole = mac.finalize().into_bytes();
        let mut tag = [0; TAG];
        tag.copy_from_slice(&whole[..TAG]);
        tag
    }

    pub fn sign(&self, list: &[u8; 32], position: &impl prost::Message) -> String {
        let position = position.encode_to_vec();
        let mut bytes = self.tag(list, &position).to_vec();
        bytes.extend_from_slice(&position);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor; none if this service did not create it for this list.
    pub fn read<P: prost::Message + Default>(&self, list: &[u8; 32], cursor: &str) -> Option<P> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (tag, position) = bytes.split_at_checked(TAG)?;
        let same = subtle::ConstantTimeEq::ct_eq(tag, self.tag(list, position).as_slice());
        bool::from(same).then(|| P::decode(position).ok())?
    }
}

/// Names a list by everything that determines its content.
pub fn list_name(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// A position in a list ordered by time, then id.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TimePosition {
    /// Time of the last row.
    #[prost(int64, tag = "1")]
    pub created_at: i64,
    /// Id of the last row.
    #[prost(string, tag = "2")]
    pub id: String,
    /// The lower bound as the first page resolved it, so that later pages do not move it.
    #[prost(int64, tag = "3")]
    pub from: i64,
    /// Likes of the last row, in a list ordered by them.
    #[prost(int64, optional, tag = "4")]
    pub likes: Option<i64>,
}

/// A position in the merged history of events: each dataset is read below its sequence number.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HistoryPosition {
    /// By dataset, in the order of the view.
    #[prost(uint64, repeated, tag = "1")]
    pub before: Vec<u64>,
    /// The requested lower bound, as the first page resolved it; 0 for none.
    #[prost(int64, tag = "2")]
    pub from: i64,
    /// The projected position of each dataset at the first page.
    #[prost(uint64, repeated, tag = "3")]
    pub projected: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_only_in_its_own_list() {
        let signer = CursorSigner::new([7; 32]);
        let position = TimePosition { created_at: 5, id: "th_1".to_owned(), from: 1, likes: None };
        let (list, other) = (list_name(&["theses", "a"]), list_name(&["theses", "b"]));
        let cursor = signer.sign(&list, &position);
        assert_eq!(signer.read(&list, &cursor), Some(position));
        assert_eq!(signer.read::<TimePosition>(&other, &cursor), None);
        assert_eq!(CursorSigner::new([8; 32]).read::<TimePosition>(&list, &cursor), None);
        for end in 0..cursor.len() {
            assert_eq!(signer.read::<TimePosition>(&list, &cursor[..end]), None);
        }
    }
}

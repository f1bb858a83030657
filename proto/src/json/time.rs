//! Times in JSON.

use serde::{Serialize, Serializer};

use crate::time::{text_of, to_millis, write_millis};

/// Unix milliseconds that serialise as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time(pub i64);

impl From<&prost_types::Timestamp> for Time {
    fn from(timestamp: &prost_types::Timestamp) -> Self {
        Self(to_millis(timestamp))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text_of(&write_millis(self.0)))
    }
}

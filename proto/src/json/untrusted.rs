//! JSON that strangers write.
//!
//! `serde_json` reads an object with one certain field as the JSON in the field's text, with a new limit of depth. Texts
//! in texts would so exhaust the stack, which ends the process.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

/// The name of this field.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Reads a value that does not have this field anywhere.
///
/// # Errors
/// Fails as `serde_json` does, and with the error of [`check`].
pub fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    check(text)?;
    serde_json::from_slice(text)
}

/// Refuses JSON with this field, in any object.
///
/// # Errors
/// Fails if the text is not JSON, and with an error about data if an object has the field.
pub fn check(text: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<WithoutRawValues>(text).map(drop)
}

/// Any other JSON value. It keeps nothing of the value.
struct WithoutRawValues;

impl<'de> Deserialize<'de> for WithoutRawValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for WithoutRawValues {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self, A::Error> {
        while values.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            if name == RAW_VALUE {
                return Err(A::Error::custom(format_args!("an object has the field `{name}`")));
            }
            fields.next_value::<Self>()?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Sixty such texts in each other. Without a check, reading them needs more stack than a thread has.
    fn nested_raw_values() -> String {
        (0..60).fold("1".to_owned(), |inner, _| {
            let text = inner.replace('\\', r"\u005c").replace('"', r"\u0022");
            format!(r#"{}{{"{RAW_VALUE}":"{text}"}}{}"#, "[".repeat(120), "]".repeat(120))
        })
    }

    #[test]
    fn raw_values_are_refused_at_any_depth_and_in_any_spelling() {
        let escaped = RAW_VALUE.replace('$', r"\u0024");
        for name in [RAW_VALUE, &escaped] {
            for text in [format!(r#"{{"{name}":"1"}}"#), format!(r#"{{"a":[1,{{"b":{{"{name}":"{{}}"}}}}]}}"#)] {
                let error = read::<Value>(text.as_bytes()).unwrap_err();
                assert!(error.is_data(), "{text}: {error}");
            }
        }
        assert!(read::<Value>(nested_raw_values().as_bytes()).is_err());
    }

    #[test]
    fn other_values_are_read_as_before() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,0.5,"$serde_json"],"b":{}}"#;
        assert_eq!(read::<Value>(text.as_bytes()).unwrap(), text.parse::<Value>().unwrap());
        for wrong in ["", "{", "[1,]", "nope", "{} {}"] {
            assert!(!read::<Value>(wrong.as_bytes()).unwrap_err().is_data(), "{wrong}");
        }
    }
}

//! Canonical JSON (RFC 8785), for values whose numbers are whole.
//!
//! RFC 8785 also defines a text for other numbers. No value of a receipt has such a number, so this code refuses them.

use serde_json::{Map, Number, Value};

/// The largest whole number that every reader of JSON keeps: 2^53 - 1.
pub(crate) const MAX_INTEGER: u64 = (1 << 53) - 1;

/// The value has a number that has no canonical form here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("has a number that is not whole, or is beyond 2^53 - 1")]
pub struct NotCanonical;

/// The canonical text of a value.
///
/// # Errors
/// Fails if a number is not whole, or is too large for other readers.
pub fn to_canonical(value: &Value) -> Result<String, NotCanonical> {
    let mut text = String::new();
    write(value, &mut text)?;
    Ok(text)
}

fn write(value: &Value, text: &mut String) -> Result<(), NotCanonical> {
    match value {
        Value::Number(number) => write_number(number, text)?,
        Value::String(string) => write_string(string, text),
        Value::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(value, text)?;
            }
            text.push(']');
        }
        Value::Object(fields) => write_object(fields, text)?,
        Value::Null | Value::Bool(_) => text.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_object(fields: &Map<String, Value>, text: &mut String) -> Result<(), NotCanonical> {
    let mut fields: Vec<_> = fields.iter().collect();
    // Names are sorted by their UTF-16 units, which differs from the order of their bytes beyond U+FFFF.
    fields.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    text.push('{');
    for (place, (name, value)) in fields.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write_string(name, text);
        text.push(':');
        write(value, text)?;
    }
    text.push('}');
    Ok(())
}

fn write_number(number: &Number, text: &mut String) -> Result<(), NotCanonical> {
    let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    magnitude.filter(|magnitude| *magnitude <= MAX_INTEGER).ok_or(NotCanonical)?;
    text.push_str(&number.to_string());
    Ok(())
}

/// Writes a string as `serde_json` does: it escapes only what must be escaped, in the short form where there is one,
/// and in lower case. RFC 8785 has the same rules.
fn write_string(string: &str, text: &mut String) {
    text.push_str(&Value::from(string).to_string());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The strings and the order of the examples in RFC 8785, 3.2.2 and 3.2.3.
    #[test]
    fn the_examples_of_the_rfc_are_canonical() {
        let sorted: Value = serde_json::from_str(
            r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
                "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control",
                "\u00f6":"Latin Small Letter O With Diaeresis"}"#,
        )
        .unwrap();
        let text = to_canonical(&sorted).unwrap();
        let names = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let places: Vec<usize> = names.iter().map(|name| text.find(name).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        let literals: Value = serde_json::from_str(
            r#"{"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
                "literals":[null,true,false],"numbers":[0,-1,10]}"#,
        )
        .unwrap();
        let canonical = "{\"literals\":[null,true,false],\"numbers\":[0,-1,10],\
                         \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(to_canonical(&literals).unwrap(), canonical);
    }

    #[test]
    fn control_characters_have_their_short_forms() {
        let text = to_canonical(&json!("\u{8}\t\n\u{c}\r\u{0}\u{1f}\u{7f}\u{2028}")).unwrap();
        assert_eq!(text, "\"\\b\\t\\n\\f\\r\\u0000\\u001f\u{7f}\u{2028}\"");
    }

    #[test]
    fn numbers_with_another_form_elsewhere_are_refused() {
        assert_eq!(to_canonical(&json!(9_007_199_254_740_991_u64)).unwrap(), "9007199254740991");
        assert_eq!(to_canonical(&json!(-9_007_199_254_740_991_i64)).unwrap(), "-9007199254740991");
        for number in [json!(9_007_199_254_740_992_u64), json!(i64::MIN), json!(0.5), json!(1e3)] {
            assert_eq!(to_canonical(&json!({"numbers": [number]})), Err(NotCanonical));
        }
    }
}

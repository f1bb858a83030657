//! Texts as bits that sort as their bytes do, with few bits for the characters of ids.
//!
//! The end of a text and each of its bytes have a code. The codes sort as their bytes do, the end first, and none is a
//! prefix of another: an alphabetic code. So encoded texts sort as the texts do, and none is a prefix of another
//! either. Digits and most lower-case letters take five or six bits: an id of 27 characters with its end takes 20
//! bytes. The last byte is filled up with zeros.

use std::sync::LazyLock;

/// The end of a text, then every byte.
const SYMBOLS: usize = 257;
const END: usize = 0;
/// Maximum number of bits of a code that one access to a table decodes.
const TABLE_BITS: u32 = 12;

/// The expected frequency of a symbol. A change here changes the file's format.
const fn weight(symbol: usize) -> u32 {
    if symbol == END {
        return 260;
    }
    match (symbol - 1) as u8 {
        b'i' | b'l' | b'o' | b'u' => 24,
        b'0'..=b'9' | b'a'..=b'z' => 200,
        b'_' => 120,
        b':' => 50,
        b'/' => 16,
        b'-' => 12,
        b'A'..=b'Z' | b'$' | b'.' => 6,
        _ => 1,
    }
}

/// A code: its bits at the low end, and their number.
#[derive(Clone, Copy, Default)]
struct Code {
    bits: u32,
    length: u32,
}

struct Codes {
    of: [Code; SYMBOLS],
    /// The symbol whose code begins these bits, if the code is short enough.
    by_prefix: Vec<Option<u16>>,
}

static CODES: LazyLock<Codes> = LazyLock::new(|| {
    let mut of = [Code::default(); SYMBOLS];
    assign(&mut of, 0, SYMBOLS, Code::default());
    let mut by_prefix = vec![None; 1 << TABLE_BITS];
    for (symbol, code) in of.iter().enumerate().filter(|(_, code)| code.length <= TABLE_BITS) {
        let free = TABLE_BITS - code.length;
        let first = (code.bits << free) as usize;
        by_prefix[first..first + (1 << free)].fill(u16::try_from(symbol).ok());
    }
    Codes { of, by_prefix }
});

/// Assigns codes to the symbols of a range: its two halves, about equal in weight, begin with 0 and 1.
fn assign(codes: &mut [Code; SYMBOLS], from: usize, to: usize, begin: Code) {
    if to - from == 1 {
        codes[from] = begin;
        return;
    }
    let sum = |range: std::ops::Range<usize>| range.map(weight).sum::<u32>();
    let halves = |middle: &usize| sum(from..*middle).abs_diff(sum(*middle..to));
    let middle = (from + 1..to).min_by_key(halves).unwrap_or(from + 1);
    let next = |bit: u32| Code { bits: begin.bits << 1 | bit, length: begin.length + 1 };
    assign(codes, from, middle, next(0));
    assign(codes, middle, to, next(1));
}

pub(super) fn append_text(bytes: &mut Vec<u8>, text: &str) {
    let codes = &CODES.of;
    let (mut held, mut count) = (0_u64, 0_u32);
    for symbol in text.bytes().map(|byte| usize::from(byte) + 1).chain([END]) {
        let code = codes[symbol];
        held = held << code.length | u64::from(code.bits);
        count += code.length;
        while count >= 8 {
            count -= 8;
            bytes.push((held >> count & 0xff) as u8);
        }
    }
    if count > 0 {
        bytes.push((held << (8 - count) & 0xff) as u8);
    }
}

/// Decodes a text at the beginning of some bytes and removes it; `None` if no text begins there.
pub(super) fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let codes = &*CODES;
    let mut text = Vec::with_capacity(32);
    let (mut held, mut count) = (0_u64, 0_u32);
    let mut rest = bytes.iter();
    loop {
        while count <= 56 {
            let Some(byte) = rest.as_slice().first() else { break };
            rest.next();
            held = held << 8 | u64::from(*byte);
            count += 8;
        }
        // The next 32 bits, filled up with zeros.
        let next = if count >= 32 { held >> (count - 32) } else { held << (32 - count) };
        let symbol = symbol(codes, (next & 0xffff_ffff) as u32);
        let length = codes.of[symbol].length;
        if length > count {
            return None;
        }
        count -= length;
        held &= (1 << count) - 1;
        if symbol == END {
            break;
        }
        text.push(u8::try_from(symbol - 1).ok()?);
    }
    // Bytes read beyond the text's last one stay in the input.
    let unread = count / 8;
    if held >> (unread * 8) != 0 {
        return None;
    }
    *bytes = &bytes[bytes.len() - rest.as_slice().len() - unread as usize..];
    String::from_utf8(text).ok()
}

/// The symbol whose code begins these bits.
fn symbol(codes: &Codes, bits: u32) -> usize {
    if let Some(symbol) = codes.by_prefix[(bits >> (32 - TABLE_BITS)) as usize] {
        return usize::from(symbol);
    }
    codes.of.partition_point(|code| code.bits << (32 - code.length) <= bits).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        append_text(&mut bytes, text);
        bytes
    }

    proptest! {
        #[test]
        fn bits_sort_as_texts_do(one in "[a-c0-1_:\u{0}\u{1}é🚀]{0,5}|\\PC{0,8}", other in "[a-c0-1_:\u{0}é🚀]{0,5}") {
            prop_assert_eq!(encoded(&one).cmp(&encoded(&other)), one.cmp(&other));
            prop_assert!(one == other || !encoded(&one).starts_with(&encoded(&other)));
        }

        #[test]
        fn texts_come_back_and_leave_what_follows(text in "\\PC{0,40}|[0-9a-z_]{0,60}", tail in prop::collection::vec(any::<u8>(), 0..9)) {
            let bytes = [encoded(&text), tail.clone()].concat();
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take_text(&mut rest), Some(text));
            prop_assert_eq!(rest, tail);
        }

        #[test]
        fn what_decodes_is_what_was_encoded(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut rest = bytes.as_slice();
            if let Some(text) = take_text(&mut rest) {
                prop_assert_eq!(encoded(&text), &bytes[..bytes.len() - rest.len()]);
            }
        }
    }

    #[test]
    fn ids_are_short() {
        assert!(encoded("th_9qvqwckq305sg02k5efh5hcm").len() <= 20);
        assert!(encoded("pt:fp_nw76g6ejk01rvehrsppj5sm1:tk_0746zn8kavzhdrzdb22f5rt2").len() <= 42);
        assert!(encoded("live").len() <= 5);
    }

    #[test]
    fn every_code_fits() {
        assert!(CODES.of.iter().all(|code| (1..=24).contains(&code.length)));
    }
}

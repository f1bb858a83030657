//! Mutations of a corpus.

/// Maximum bytes of an input, as of the fuzzer.
const MAX_INPUT: usize = 4_096;
/// Parts at which readers of text, JSON and numbers often fail.
const PARTS: &[&[u8]] = &[
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"[[[[[[[[",
    b"{\"a\":",
    b"null",
    b"-1",
    b"1e999",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"9999-12-31T23:59:59.999Z",
    b"%",
    b"%zz",
    b"&",
    b",",
    b":",
    b"$",
    b"@",
    b"*",
    b"-",
    b" OR ",
    b"\n\n",
    b"\r",
    b"\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "\u{fe0f}".as_bytes(),
    "\u{130}ß".as_bytes(),
    "👍🏽".as_bytes(),
];

/// Random numbers, the same for a name in every run: SplitMix64.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn of(name: &str) -> Self {
        Self(name.bytes().fold(0, |seed, byte| seed.wrapping_mul(257).wrapping_add(u64::from(byte))))
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((number ^ number >> 31) % end as u64).expect("it is below a usize")
    }
}

/// A file of the corpus with one to four changes.
pub(crate) fn mutated(corpus: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut input = corpus[numbers.below(corpus.len())].clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(input.len() + 1);
        let end = input.len().min(at + 1 + numbers.below(16));
        match numbers.below(6) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << numbers.below(8);
                }
            }
            1 => input.insert(at, numbers.below(256).to_le_bytes()[0]),
            2 => drop(input.drain(at..end)),
            3 => {
                let copy = input[at..end].repeat(1 + numbers.below(64));
                insert(&mut input, at, &copy);
            }
            4 => {
                let other = &corpus[numbers.below(corpus.len())];
                input.truncate(at);
                input.extend_from_slice(&other[numbers.below(other.len() + 1)..]);
            }
            _ => insert(&mut input, at, PARTS[numbers.below(PARTS.len())]),
        }
        input.truncate(MAX_INPUT);
    }
    input
}

fn insert(input: &mut Vec<u8>, at: usize, part: &[u8]) {
    let rest = input.split_off(at);
    input.extend_from_slice(part);
    input.extend(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_differ_and_are_the_same_in_every_run() {
        let corpus = vec![b"one".to_vec(), Vec::new(), b"another one".to_vec()];
        let run = || {
            let mut numbers = Numbers::of("name");
            (0..500).map(|_| mutated(&corpus, &mut numbers)).collect::<Vec<_>>()
        };
        let mut mutations = run();
        assert_eq!(mutations, run());
        assert!(mutations.iter().all(|input| input.len() <= MAX_INPUT));
        mutations.sort();
        mutations.dedup();
        assert!(mutations.len() > 300, "{}", mutations.len());
    }
}

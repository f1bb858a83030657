//! The commonest passwords, and others that attackers try first.
//!
//! The file has the 10,000 commonest passwords and all common ones of 12 characters and more, by the counts of zxcvbn.
//! They are in lower case and sorted.

const COMMON: &str = include_str!("common_passwords.txt");
/// A common password stays common with up to this many digits and signs around it.
const MAX_ADDED: usize = 6;
/// A password that only repeats a text of up to this length is common.
const MAX_UNIT: usize = 4;
/// Minimum number of different characters in a password.
const MIN_DIFFERENT: usize = 4;
/// Rows of the keyboard, and the alphabet. Parts of them in either direction are common.
const ROWS: [&str; 3] = ["abcdefghijklmnopqrstuvwxyz", "12345678901234567890", "qwertyuiopasdfghjklzxcvbnm"];

fn is_listed(text: &str) -> bool {
    let lines: Vec<&str> = COMMON.lines().collect();
    lines.binary_search(&text).is_ok()
}

/// The shortest text whose repetition begins with these characters.
fn unit(letters: &[char]) -> &[char] {
    let is_period = |length: &usize| letters.iter().zip(&letters[*length..]).all(|(one, other)| one == other);
    let length = (1..=letters.len()).find(is_period).unwrap_or(letters.len());
    &letters[..length]
}

/// True if a password is one of the commonest: as it is, repeated, or with digits and signs around it.
pub fn is_common(password: &str) -> bool {
    let folded = password.to_lowercase();
    let letters: Vec<char> = folded.chars().collect();
    let unit = unit(&letters);
    let mut different = letters.clone();
    different.sort_unstable();
    different.dedup();
    if different.len() < MIN_DIFFERENT || unit.len() <= MAX_UNIT {
        return true;
    }
    let backwards: String = letters.iter().rev().collect();
    if ROWS.iter().any(|row| row.contains(&folded) || row.contains(&backwards)) {
        return true;
    }
    let word = folded.trim_matches(|letter: char| !letter.is_alphabetic());
    let added = letters.len() - word.chars().count();
    is_listed(&folded) || is_listed(&unit.iter().collect::<String>()) || (added <= MAX_ADDED && is_listed(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_sorted_and_in_lower_case() {
        let lines: Vec<&str> = COMMON.lines().collect();
        assert!(lines.len() > 10_000 && lines.is_sorted());
        assert!(lines.iter().all(|line| !line.is_empty() && *line == line.to_lowercase()));
    }

    #[test]
    fn passwords_that_are_tried_first_are_common() {
        for common in [
            "aaaaaaaaaaaa",
            "abababababab",
            "abcabcabcabc",
            "aaaabbbbcccc",
            "passwordpassword",
            "Password1234",
            "1234password!",
            "Dragon!23456",
            "123456789012",
            "210987654321",
            "abcdefghijklm",
            "QWERTYuiopas",
            "qazwsxedcrfv",
            "finalfantasy",
        ] {
            assert!(is_common(common), "{common}");
        }
        for other in [
            "correct horse battery staple",
            "a wholly new password",
            "fzDqsgkrWhvc",
            "839174920174abc",
            "password of my cat",
            "ключ от квартиры",
        ] {
            assert!(!is_common(other), "{other}");
        }
    }
}

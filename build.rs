//! Tells the program which commit it is made of, and never when or where: the same commit gives the same program.

use std::{env, error::Error, path::Path, process::Command};

/// The sources of the program. Any other file may differ from the commit, and the program is still the commit's.
const PARTS: [&str; 13] = [
    "Cargo.lock",
    "Cargo.toml",
    "build.rs",
    "core-service",
    "delivery-worker",
    "docs",
    "migrations",
    "net",
    "proto",
    "rest-edge",
    "src",
    "streams",
    "upstream-sim",
];
/// Letters of a commit that the program shows.
const SHOWN_LENGTH: usize = 12;
/// Maximum letters of a commit that the environment names.
const MAX_LENGTH: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=SVC_BUILD_COMMIT");
    // The program is compiled again anyway when one of these changes.
    for part in PARTS {
        println!("cargo:rerun-if-changed={part}");
    }
    let commit = match env::var("SVC_BUILD_COMMIT").ok().filter(|named| !named.is_empty()) {
        Some(named) => checked(named)?,
        None => of_the_clone().unwrap_or_else(|| "unknown".to_owned()),
    };
    println!("cargo:rustc-env=SVC_BUILD_COMMIT={commit}");
    Ok(())
}

/// Checks and shortens a commit that the environment names.
fn checked(named: String) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if named.len() > MAX_LENGTH || !named.chars().all(is_plain) {
        return Err(format!(
            "SVC_BUILD_COMMIT: `{named}` is no commit: give at most {MAX_LENGTH} letters, digits, -, _ or ."
        ));
    }
    let is_whole = named.len() == MAX_LENGTH && named.bytes().all(|letter| letter.is_ascii_hexdigit());
    Ok(if is_whole { named[..SHOWN_LENGTH].to_owned() } else { named })
}

/// The commit of this clone, with `-dirty` when the program has uncommitted changes; `None` outside a clone.
fn of_the_clone() -> Option<String> {
    // An unpacked archive may lie in somebody else's repository.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let commit = git(&["rev-parse", "--verify", "HEAD"])?;
    for file in ["HEAD", "logs/HEAD"].map(str::to_owned).into_iter().chain(git(&["symbolic-ref", "--quiet", "HEAD"])) {
        // A missing path would run this at every build.
        if let Some(path) = git(&["rev-parse", "--git-path", &file]).filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let changed = git(&[&["status", "--porcelain", "--"], &PARTS[..]].concat())?;
    let mark = if changed.is_empty() { "" } else { "-dirty" };
    Some(format!("{}{mark}", commit.get(..SHOWN_LENGTH)?))
}

/// The output of git; `None` when it fails or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    // Asking must not write the index: another git may be at work here.
    let output = Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

//! Backups that only those can read to whom they are encrypted.

use std::{
    fs,
    path::{Path, PathBuf},
};

use age::{secrecy::ExposeSecret as _, x25519::Identity};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::harness::{Service, text};

/// Somebody with an identity in a file.
struct Reader {
    identity: PathBuf,
    recipient: String,
}

impl Reader {
    fn new(dir: &Path, name: &str) -> Self {
        let (identity, file) = (Identity::generate(), dir.join(name));
        fs::write(&file, format!("{}\n", identity.to_string().expose_secret())).unwrap();
        Self { identity: file, recipient: identity.to_public().to_string() }
    }
}

/// Saves a service for recipients; gives what the command told.
async fn save(service: &Service, to: &Path, recipients: &[&str]) -> (Option<i32>, Value) {
    let mut arguments = vec!["admin", "--json", "backup", "--to", to.to_str().unwrap()];
    arguments.extend(recipients.iter().flat_map(|recipient| ["--recipient", *recipient]));
    let (code, told, error) = service.command(&arguments).await;
    (code, serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told} {error}")))
}

/// Restores a file into a folder, by an identity if one is named; gives the exit code and the error.
async fn restore(service: &Service, from: &Path, identity: Option<&Path>, into: &Path) -> (Option<i32>, String) {
    let mut arguments = vec!["restore", "--from", from.to_str().unwrap(), "--data-dir", into.to_str().unwrap()];
    if let Some(identity) = identity {
        arguments.extend(["--identity", identity.to_str().unwrap()]);
    }
    let (code, _, error) = service.command(&arguments).await;
    (code, error)
}

#[tokio::test]
async fn an_encrypted_backup_is_restored_by_each_recipient_and_by_nobody_else() {
    let mut service = Service::embedded(|setup| setup);
    let client = service.test_client().await;
    let (thesis, _) = client.thesis("sealed", "SEALED", "only for those who are named").await;
    let dir = service.dir.path().to_owned();
    let [one, other, stranger] = ["one", "other", "stranger"].map(|name| Reader::new(&dir, name));
    let file = dir.join("sealed.backup");

    let (code, told) = save(&service, &file, &[&one.recipient, &other.recipient]).await;
    assert_eq!(code, Some(0), "{told}");
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"age-encryption.org/v1\n") && !bytes.windows(8).any(|part| part == b"ttbackup"));
    assert_eq!(told["bytes"].as_u64(), Some(bytes.len() as u64), "{told}");
    assert_eq!(text(&told, "sha256"), hex::encode(Sha256::digest(&bytes)), "{told}");

    let new = dir.join("new");
    let refused = async |from: &Path, identity: Option<&Path>, named: &str| {
        let (code, error) = restore(&service, from, identity, &new).await;
        assert_eq!((code, error.lines().count()), (Some(1), 1), "{error}");
        assert!(error.contains(named) && !new.exists(), "{error}");
    };
    refused(&file, None, "by --identity").await;
    refused(&file, Some(&stranger.identity), "other recipients").await;
    refused(&file, Some(&dir.join("nowhere")), "--identity: ").await;
    refused(&file, Some(&file), "--identity: ").await;
    let (mut changed, wrong) = (bytes.clone(), dir.join("wrong.backup"));
    changed[bytes.len() / 2] ^= 1;
    for damaged in [&changed[..], &bytes[..bytes.len() - 1]] {
        fs::write(&wrong, damaged).unwrap();
        refused(&wrong, Some(&one.identity), "cut off or was changed").await;
    }

    for (reader, copy) in [(&one, "first"), (&other, "second")] {
        let (code, error) = restore(&service, &file, Some(&reader.identity), &dir.join(copy)).await;
        assert_eq!((code, error.as_str()), (Some(0), ""));
    }
    service.go_on_in(&dir.join("second")).await;
    let copied = client.anew().get(&format!("/v1/theses/{}", text(&thesis, "id"))).await.ok(200);
    assert_eq!(copied["text"], thesis["text"]);
    assert_eq!(service.check_log("sandbox").await.gaps, 0);
}

#[tokio::test]
async fn a_recipient_that_is_none_makes_no_file() {
    let service = Service::embedded(|setup| setup);
    let file = service.dir.path().join("wrong.backup");
    for wrong in ["age1wrong", "AGE-SECRET-KEY-1", "ssh-ed25519"] {
        let (code, told) = save(&service, &file, &[wrong]).await;
        assert_eq!(code, Some(2), "{told}");
        assert!(told.to_string().contains("--recipient"), "{told}");
    }
    assert!(!file.exists() && !file.with_extension("backup.partial").exists());
}

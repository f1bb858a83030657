//! What is refused before anything begins.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use serde_json::Value;

use crate::{
    admin::admin,
    harness::{SERVICE_TOKEN, Service, Setup, cluster, text},
};

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| !name.ends_with(".log")).collect();
    names.sort_unstable();
    names
}

async fn refused_backup(service: &Service, to: &Path, code: &str, named: &str) {
    let (exit, told, error) = service.command(&["admin", "--json", "backup", "--to", to.to_str().unwrap()]).await;
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told} {error}"));
    assert_eq!((exit, text(&told, "code")), (Some(1), code), "{told}");
    assert!(text(&told, "message").contains(named), "{told}");
}

#[tokio::test]
async fn a_backup_overwrites_nothing() {
    let service = Service::embedded(|setup| setup);
    let dir = service.dir.path();
    let (file, _) = service.save("first.backup").await;
    let (bytes, before) = (fs::read(&file).unwrap(), names(dir));
    refused_backup(&service, &file, "INVALID_REQUEST", "first.backup exists").await;
    refused_backup(&service, &dir.join("missing/second.backup"), "INVALID_REQUEST", "second.backup.partial").await;
    assert_eq!((fs::read(&file).unwrap(), names(dir)), (bytes, before));
    symlink(dir.join("nowhere"), dir.join("link")).unwrap();
    refused_backup(&service, &dir.join("link"), "INVALID_REQUEST", "link exists").await;
    fs::create_dir(dir.join("closed")).unwrap();
    fs::set_permissions(dir.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    // Whoever may write everywhere is not refused.
    if fs::write(dir.join("closed/try"), "").is_err() {
        refused_backup(&service, &dir.join("closed/x"), "INVALID_REQUEST", "x.partial cannot be made").await;
    }
    // A service credential is needed, as for every command.
    let wrong = Setup::new(dir).set("SVC_CORE_URL", &service.grpc).set("SVC_SERVICE_TOKEN", &"x".repeat(40));
    let to = dir.join("stolen.backup");
    let (exit, ..) = wrong.arguments(&["admin", "backup", "--to", to.to_str().unwrap()]).run();
    assert_eq!((exit, to.exists()), (Some(1), false));
}

#[tokio::test]
async fn a_cluster_is_saved_by_its_own_tools() {
    let Some(service) = cluster().await else { return };
    let to = service.dir.path().join("cluster.backup");
    refused_backup(service, &to, "BACKUP_UNSUPPORTED", "sctool backup").await;
    assert!(!to.exists() && !to.with_extension("backup.partial").exists());
    let acts = admin(service, &["audit", "list", "--limit", "1000"]);
    assert!(!acts.to_string().contains("store.backup_begun"), "{acts}");
}

#[tokio::test]
async fn a_restore_is_refused_before_it_makes_anything() {
    let service = Service::embedded(|setup| setup);
    let dir = service.dir.path();
    let (file, _) = service.save("whole.backup").await;
    let whole = fs::read(&file).unwrap();
    let run = |from: &Path, into: &Path| {
        let setup = Setup::new(dir).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN);
        setup.arguments(&["restore", "--from", from.to_str().unwrap(), "--data-dir", into.to_str().unwrap()]).run()
    };
    let refused = |from: &Path, into: &Path, named: &str| {
        let (exit, told, error) = run(from, into);
        assert_eq!((exit, told.as_str(), error.lines().count()), (Some(1), "", 1), "{error}");
        assert!(error.contains(named), "{error}");
    };
    // Files that are no whole backup.
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let mut newer = whole.clone();
    newer[8] = 9;
    let new = dir.join("new");
    for (bytes, named) in [
        (&whole[..whole.len() / 2], "cut off"),
        (&whole[..whole.len() - 1], "cut off"),
        (&flipped[..], "damaged"),
        (&newer[..], "form 9"),
        (b"{\"not\":\"a backup\"}", "no backup"),
        (b"", "no backup"),
    ] {
        let from = dir.join("wrong.backup");
        fs::write(&from, bytes).unwrap();
        refused(&from, &new, named);
        assert!(!new.exists(), "{named}");
    }
    refused(&dir.join("missing.backup"), &new, "missing.backup");
    // Folders that are not empty, that of the running service among them.
    refused(&file, &dir.join("data"), "SVC_DATA_DIR");
    let full = dir.join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("notes.txt"), "mine").unwrap();
    refused(&file, &full, "notes.txt");
    assert_eq!(names(&full), ["notes.txt"]);
    // One that a restore has left is no store: it does not start, and the next restore replaces it.
    let left = dir.join("left");
    fs::create_dir(&left).unwrap();
    fs::create_dir(left.join("store.restoring")).unwrap();
    fs::write(left.join("store.restoring/log.redb"), &whole[..1_000]).unwrap();
    let (exit, _, error) = Setup::new(dir).set("SVC_DATA_DIR", left.to_str().unwrap()).run();
    assert!(exit == Some(1) && error.contains("store.restoring"), "{error}");
    assert_eq!(names(&left), ["store.restoring"]);
    let (exit, told, error) = run(&file, &left);
    assert_eq!((exit, error.as_str()), (Some(0), ""), "{told}");
    assert!(told.contains("secret key") && names(&left) == ["store", "store.lock"], "{told}");
}

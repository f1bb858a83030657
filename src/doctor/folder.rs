//! The data folder: whether it can be used, its room, whether its search index is in use, and who can read its secrets.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use core_service::SearchFolder;
use rustix::{
    fs::{Access, Mode, OFlags, access, open, statvfs},
    io::Errno,
};
use tokio::task::spawn_blocking;

use super::finding::Finding;
use crate::{
    config::{Refused, SEARCH_DIR, refused_index, unusable},
    secrets,
};

/// Room below which a start may already fail.
const MIN_ROOM: u64 = 32 << 20;
/// Room that a service in use soon needs.
const MIN_FREE_BYTES: u64 = 1 << 30;

/// Checks that the folder exists or can be created, and has room.
pub(super) async fn check(dir: &Path) -> Vec<Finding> {
    let dir = dir.to_owned();
    // A disk over the network may hang.
    spawn_blocking(move || judge(&dir)).await.unwrap_or_else(|error| vec![Finding::broken_off("folder", &error)])
}

fn judge(dir: &Path) -> Vec<Finding> {
    let (existing, seen) = match existing(dir) {
        Ok(existing) if existing == dir => (existing, format!("{} exists", dir.display())),
        Ok(existing) => {
            let seen = format!("{} does not exist yet; a start makes it", dir.display());
            (existing, seen)
        }
        Err(error) => return vec![refused(dir, &error)],
    };
    match is_writable(&existing) {
        Ok(()) => {
            let mut findings = vec![Finding::ok("folder", format!("{seen}, and can be written")), room(&existing)];
            findings.extend(search_index(dir));
            findings
        }
        Err(error) => vec![refused(dir, &error)],
    }
}

fn refused(dir: &Path, error: &io::Error) -> Finding {
    let refused = Refused::new("SVC_DATA_DIR", format!("{}: {error}", dir.display()));
    Finding::refused("folder", refused.remedy(unusable(dir, error)))
}

/// The folder, or the nearest one above it.
fn existing(dir: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(dir)?;
    for (depth, folder) in absolute.ancestors().enumerate() {
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => return Ok(if depth == 0 { dir.to_owned() } else { folder.to_owned() }),
            // The system's own errors for a folder that is to be made there, or below it.
            Ok(_) => return Err(if depth == 0 { Errno::EXIST } else { Errno::NOTDIR }.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Creates a file without a name, which leaves no trace. Where the file system cannot, the check reads the permissions.
fn is_writable(dir: &Path) -> io::Result<()> {
    match open(dir, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR) {
        Ok(_) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
            Ok(access(dir, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn room(dir: &Path) -> Finding {
    let free = match statvfs(dir) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => {
            let seen = format!("the room of {} cannot be told: {error}", dir.display());
            return Finding::warning("room", seen, "see that its disk has room");
        }
    };
    let seen = format!("{} MiB are free on the disk of {}", free >> 20, dir.display());
    let todo = "make room, or set SVC_DATA_DIR to a folder on a larger disk: it fills with the number of theses";
    if free < MIN_ROOM {
        Finding::problem("room", seen, todo)
    } else if free < MIN_FREE_BYTES {
        Finding::warning("room", seen, todo)
    } else {
        Finding::ok("room", seen)
    }
}

/// A finding if a process uses the search index in the folder. Only a core of a cluster has one there.
fn search_index(dir: &Path) -> Option<Finding> {
    let dir = dir.join(SEARCH_DIR);
    match SearchFolder::is_in_use(&dir) {
        Ok(false) => None,
        Ok(true) => {
            let seen = format!("{}: another process uses the folder", dir.display());
            let todo = "nothing if that is this core; else set SVC_DATA_DIR to another folder: each core needs its own";
            Some(Finding::warning("search", seen, todo))
        }
        Err(error) => Some(Finding::refused("search", refused_index(&dir, &error))),
    }
}

/// Checks that no other user of this machine can read the secrets in files.
pub(super) fn secrets(dir: &Path) -> Vec<Finding> {
    let files = secrets::modes(dir);
    let open = |(file, mode): &(PathBuf, u32)| {
        (mode & 0o077 != 0).then(|| {
            let seen = format!("{} has mode {mode:04o}: others on this machine may use it", file.display());
            Finding::warning("secrets", seen, format!("chmod go= {}", file.display()))
        })
    };
    let mut findings: Vec<_> = files.iter().filter_map(open).collect();
    if findings.is_empty() && !files.is_empty() {
        findings.push(Finding::ok("secrets", format!("{} files, which only their owner can read", files.len())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Status;

    #[test]
    fn a_search_index_in_use_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        assert!(search_index(dir.path()).is_none());
        let used = SearchFolder::lock(&dir.path().join(SEARCH_DIR)).unwrap();
        assert!(search_index(dir.path()).unwrap().status == Status::Warning);
        drop(used);
        assert!(search_index(dir.path()).is_none());
    }
}

//! A file that a command writes from core's messages.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::TempPath;
use thesis_proto::error::{ApiError, ErrorCode};
use tonic::Status;

use crate::terminal::write_stderr;

/// The error of a refused command, or of a failure on this machine.
pub(super) fn failed(code: ErrorCode, text: impl Into<String>) -> Status {
    ApiError::new(code, text).to_status("")
}

/// The error of a file or folder that cannot be used.
pub(super) fn broken(path: &Path) -> impl Fn(io::Error) -> Status + '_ {
    move |error| failed(ErrorCode::InternalError, format!("{}: {error}", path.display()))
}

/// A file under another name until it is whole. It is removed unless it gets its own name.
pub(super) struct NewFile {
    pub(super) file: File,
    draft: TempPath,
    to: PathBuf,
}

impl NewFile {
    /// Creates the file, readable by its owner alone.
    pub(super) fn make(to: PathBuf) -> Result<Self, Status> {
        let refused = |text: String| failed(ErrorCode::InvalidRequest, format!("--to: {text}"));
        // A link that leads nowhere would be overwritten too.
        if to.symlink_metadata().is_ok() {
            return Err(refused(format!("{} exists; name a file that does not", to.display())));
        }
        let mut draft = to.clone().into_os_string();
        draft.push(".partial");
        let draft = PathBuf::from(draft);
        let created = File::options().read(true).write(true).create_new(true).mode(0o600).open(&draft);
        let file = created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => refused(format!(
                "{} exists: another command writes it, or one did not end. If none runs, delete it",
                draft.display()
            )),
            _ => refused(format!("{} cannot be made: {error}", draft.display())),
        })?;
        let draft = TempPath::try_from_path(&draft).map_err(broken(&draft))?;
        Ok(Self { file, draft, to })
    }

    /// Its current name.
    pub(super) fn draft(&self) -> &Path {
        &self.draft
    }

    /// Renames it to its final name, durably; returns its whole path.
    pub(super) fn keep(self) -> Result<PathBuf, Status> {
        let Self { file, draft, to } = self;
        file.sync_all().map_err(broken(&draft))?;
        let path = std::path::absolute(&to).map_err(broken(&to))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let opened = File::open(folder).map_err(broken(folder))?;
        draft.persist_noclobber(&to).map_err(|error| broken(&to)(error.error))?;
        if let Err(error) = opened.sync_all() {
            // Some file systems cannot do this.
            write_stderr(&format!(
                "The file is whole, but its folder could not be synced, so a loss of power may undo it: {error}\n"
            ));
        }
        Ok(fs::canonicalize(&path).unwrap_or(path))
    }
}

/// The outcome of `work`, unless the user interrupts it. So a file that is not whole is removed then too.
pub(super) async fn unless_interrupted<T>(work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err(failed(ErrorCode::InternalError, "nothing was saved: interrupted")),
    }
}

//! Cosigns checkpoints, and keeps the last cosigned checkpoint of each log in a separate file.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use thesis_net::clock::SharedClock;
use thesis_receipts::{AddCheckpoint, Checkpoint, KeyKind, Note, SigningKey, VerifierKey, WitnessRefusal};

/// The reason for which there is no cosignature.
#[derive(Debug, thiserror::Error)]
pub(super) enum CosignError {
    /// The request is wrong, or the log was rewritten.
    #[error(transparent)]
    Refused(#[from] WitnessRefusal),
    /// The witness cannot use its files.
    #[error("the last checkpoints cannot be used: {0}")]
    Broken(#[from] io::Error),
}

/// Cosigns a checkpoint if it continues the last one of its log.
pub(super) struct Cosigner {
    name: String,
    key: SigningKey,
    /// The keys of the logs.
    logs: Vec<VerifierKey>,
    folder: PathBuf,
    clock: SharedClock,
    /// The folder, locked against other processes: two of them could cosign two histories. The mutex is held from the
    /// read of the last checkpoint until the next one is stored.
    locked_folder: Mutex<File>,
}

impl Cosigner {
    /// Creates a witness with its files in this folder, which is created if it is missing. Fails if another process
    /// uses the folder, or if the last checkpoint of a log is not cosigned by this witness.
    pub(super) fn new(
        name: String,
        seed: &[u8; 32],
        logs: Vec<VerifierKey>,
        folder: PathBuf,
        clock: SharedClock,
    ) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        // A crash must not lose the folder and leave the key beside it: the witness would forget its checkpoints.
        if let Some(parent) = folder.parent() {
            File::open(parent)?.sync_all()?;
        }
        let lock = File::open(&folder)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::Error::other("another witness uses this folder")),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let (key, locked_folder) = (SigningKey::from_seed(seed), Mutex::new(lock));
        let cosigner = Self { name, key, logs, folder, clock, locked_folder };
        for log in &cosigner.logs {
            cosigner.last(&cosigner.file(log.name()))?;
        }
        Ok(cosigner)
    }

    /// The file of a log's last checkpoint.
    fn file(&self, log: &str) -> PathBuf {
        self.folder.join(hex::encode(Sha256::digest(log)))
    }

    pub(super) fn public_key(&self) -> VerifierKey {
        self.key.verifier(&self.name, KeyKind::Witness)
    }

    /// Returns the cosignature of a checkpoint, after it is stored as the last one of its log.
    pub(super) fn add_checkpoint(&self, body: &str) -> Result<String, CosignError> {
        let request = AddCheckpoint::parse(body).ok_or(WitnessRefusal::Form)?;
        let (checkpoint, text) = request.signed_checkpoint(&self.logs)?;
        let folder = self.locked_folder.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.file(&checkpoint.origin);
        request.check_continues(&checkpoint, self.last(&file)?.as_ref())?;
        let seconds = self.clock.now_ms() / 1_000;
        let cosignature = self.key.cosign(&self.name, text, u64::try_from(seconds).unwrap_or_default());
        self.store(&folder, &file, &format!("{text}\n{cosignature}"))?;
        Ok(cosignature)
    }

    /// The last checkpoint of a log. A file without a cosignature of this witness is an error: without its last
    /// checkpoint the witness could cosign a second history.
    fn last(&self, file: &Path) -> io::Result<Option<Checkpoint>> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let note = Note::parse(&text).ok();
        let own = note.filter(|note| matches!(note.cosigned_at(&self.public_key()), Ok(Some(_))));
        let checkpoint = own.and_then(|note| Checkpoint::parse(note.text()));
        let damaged =
            || io::Error::other(format!("{} is damaged, or of a witness with another key or name", file.display()));
        checkpoint.ok_or_else(damaged).map(Some)
    }

    /// Stores a checkpoint, durably: a crash leaves the last one or this one, and perhaps a draft that nobody reads.
    fn store(&self, folder: &File, file: &Path, note: &str) -> io::Result<()> {
        let mut draft = NamedTempFile::new_in(&self.folder)?;
        draft.write_all(note.as_bytes())?;
        draft.as_file().sync_all()?;
        draft.persist(file)?;
        folder.sync_all()
    }
}

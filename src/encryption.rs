//! Backups that are encrypted by [age](https://age-encryption.org), in the form that the tool `age` writes and reads too.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read, Write},
    path::Path,
};

use age::{DecryptError, Decryptor, Encryptor, Identity, IdentityFile, Recipient, stream::StreamWriter, x25519};
use core_service::store::embedded::backup::BackupError;

/// The first line of every file that age encrypts.
const AGE_LINE: &[u8] = b"age-encryption.org/v1\n";

/// Begins the last line of a header.
const LAST_LINE: &[u8] = b"---";
/// Maximum bytes of a header, which has some hundred for each recipient. age reads one of any length.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// A secret key that decrypts the files that are encrypted to its recipient.
pub(crate) type AnyIdentity = Box<dyn Identity + Send + Sync>;

/// Reads a recipient from the command line.
pub(crate) fn recipient(text: &str) -> Result<x25519::Recipient, String> {
    text.parse().map_err(|_| "not a public key such as age1..., which age-keygen prints".to_owned())
}

/// Reads the identities in a file that `age-keygen` wrote.
pub(crate) fn identities_in(file: &Path) -> Result<Vec<AnyIdentity>, String> {
    let read = || -> io::Result<Vec<AnyIdentity>> {
        let identities = IdentityFile::from_buffer(BufReader::new(File::open(file)?))?.into_identities();
        let identities = identities.ok().filter(|identities| !identities.is_empty());
        identities.ok_or_else(|| io::Error::other("there is no age identity in it"))
    };
    read().map_err(|error| format!("{}: {error}", file.display()))
}

/// Opens a backup for reading, and decrypts it if it is encrypted.
pub(crate) fn open<'a>(from: impl Read + 'a, identities: &[AnyIdentity]) -> Result<Box<dyn Read + 'a>, BackupError> {
    let mut from = BufReader::new(from);
    if !from.fill_buf()?.starts_with(AGE_LINE) {
        return Ok(Box::new(from));
    }
    if identities.is_empty() {
        return Err(BackupError::Encrypted("it is encrypted by age; name the file with your identity by --identity"));
    }
    let header = read_header(&mut from)?;
    let decryptor = Decryptor::new_buffered(Cursor::new(header).chain(from)).map_err(undecrypted)?;
    let identities = identities.iter().map(|identity| &**identity as &dyn Identity);
    Ok(Box::new(decryptor.decrypt(identities).map_err(undecrypted)?))
}

/// Reads a header up to its last line, within the limit.
fn read_header(from: &mut impl BufRead) -> Result<Vec<u8>, BackupError> {
    let (mut from, mut header) = (from.take(MAX_HEADER_BYTES), Vec::new());
    loop {
        let start = header.len();
        if from.read_until(b'\n', &mut header)? == 0 {
            let is_short = (header.len() as u64) < MAX_HEADER_BYTES;
            return Err(if is_short { BackupError::CutOff } else { unreadable_header() });
        }
        let line = &header[start..];
        if line.starts_with(LAST_LINE) && line.ends_with(b"\n") {
            return Ok(header);
        }
    }
}

fn unreadable_header() -> BackupError {
    BackupError::Damaged("its header of age cannot be read")
}

fn undecrypted(error: DecryptError) -> BackupError {
    match error {
        DecryptError::Io(error) => error.into(),
        DecryptError::NoMatchingKeys => {
            BackupError::Encrypted("it is encrypted to other recipients than the identities that --identity names")
        }
        _ => unreadable_header(),
    }
}

/// Encrypts a file to recipients, and decrypts it again within the same run.
pub(crate) struct Encryption {
    recipients: Vec<x25519::Recipient>,
    /// The identity of one recipient more. It exists in this run alone, to read the new file back.
    own: Vec<AnyIdentity>,
}

impl Encryption {
    /// Encrypts to these recipients; none if there are none.
    pub(crate) fn for_recipients(mut recipients: Vec<x25519::Recipient>) -> Option<Self> {
        if recipients.is_empty() {
            return None;
        }
        let own = x25519::Identity::generate();
        recipients.push(own.to_public());
        Some(Self { recipients, own: vec![Box::new(own)] })
    }

    /// Encrypts a file while it is written. The file is whole only after `finish`.
    pub(crate) fn writer<W: Write>(&self, to: W) -> io::Result<StreamWriter<W>> {
        let recipients = self.recipients.iter().map(|recipient| recipient as &dyn Recipient);
        let encryptor = Encryptor::with_recipients(recipients);
        encryptor.map_err(|_| io::Error::other("it cannot be encrypted to these recipients"))?.wrap_output(to)
    }

    /// Decrypts a file of this run.
    pub(crate) fn reader<'a>(&self, from: impl Read + 'a) -> Result<Box<dyn Read + 'a>, BackupError> {
        open(from, &self.own)
    }
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret as _;

    use super::*;

    thesis_fuzz::fuzz_tests!(encrypted_backups);

    /// Nobody has the key of a file that begins as an encrypted one, so none is read.
    fn encrypted_backups(input: &[u8]) {
        let identities: Vec<AnyIdentity> = vec![Box::new(x25519::Identity::generate())];
        assert!(read(&[AGE_LINE, input].concat(), &identities).is_err());
    }

    /// More than two of the pieces in which age encrypts.
    static TEXT: [u8; 150_000] = [7; 150_000];

    fn encrypted(encryption: &Encryption) -> Vec<u8> {
        let mut writer = encryption.writer(Vec::new()).unwrap();
        writer.write_all(&TEXT).unwrap();
        writer.finish().unwrap()
    }

    fn read(file: &[u8], identities: &[AnyIdentity]) -> Result<Vec<u8>, BackupError> {
        let mut text = Vec::new();
        open(file, identities)?.read_to_end(&mut text)?;
        Ok(text)
    }

    /// An identity in a file, and its recipient.
    fn identity() -> (Vec<AnyIdentity>, x25519::Recipient) {
        let identity = x25519::Identity::generate();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, format!("# created: today\n{}\n", identity.to_string().expose_secret())).unwrap();
        (identities_in(file.path()).unwrap(), recipient(&identity.to_public().to_string()).unwrap())
    }

    #[test]
    fn every_recipient_and_the_run_that_wrote_it_can_read_a_file() {
        let ((one, of_one), (other, of_other), (stranger, _)) = (identity(), identity(), identity());
        let encryption = Encryption::for_recipients(vec![of_one, of_other]).unwrap();
        let file = encrypted(&encryption);
        assert!(file.starts_with(AGE_LINE) && !file.windows(32).any(|window| window == &TEXT[..32]));
        let mut read_back = Vec::new();
        encryption.reader(&file[..]).unwrap().read_to_end(&mut read_back).unwrap();
        for text in [read_back, read(&file, &one).unwrap(), read(&file, &other).unwrap()] {
            assert!(text == TEXT);
        }
        let refused = |identities: &[AnyIdentity]| read(&file, identities).unwrap_err().to_string();
        assert!(refused(&[]).contains("by --identity"), "{}", refused(&[]));
        assert!(refused(&stranger).contains("other recipients"), "{}", refused(&stranger));
        // A file that is not encrypted is read as it is, with and without an identity.
        assert_eq!((read(b"plain", &one).unwrap(), read(b"", &[]).unwrap()), (b"plain".to_vec(), Vec::new()));
        assert!(Encryption::for_recipients(Vec::new()).is_none());
    }

    #[test]
    fn a_file_that_is_cut_off_or_changed_is_refused() {
        let (identities, recipient) = identity();
        let whole = encrypted(&Encryption::for_recipients(vec![recipient]).unwrap());
        for length in [AGE_LINE.len(), 100, whole.len() / 2, whole.len() - 1] {
            let cut = read(&whole[..length], &identities).unwrap_err();
            assert!(matches!(cut, BackupError::CutOff | BackupError::Damaged(_)), "{length}: {cut}");
        }
        for place in [AGE_LINE.len() + 20, whole.len() / 2, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            assert!(read(&changed, &identities).is_err(), "{place}");
        }
    }

    #[test]
    fn a_header_without_an_end_is_not_read_for_ever() {
        let (identities, _) = identity();
        for line in ["x", "-> X25519 a\n", "---x"] {
            let endless = AGE_LINE.chain(Cursor::new(line)).chain(io::repeat(b'x'));
            let refused = open(endless, &identities).err().unwrap();
            assert!(refused.to_string().contains("header of age"), "{refused}");
        }
    }

    #[test]
    fn a_text_that_is_no_key_of_age_is_refused() {
        let secret = x25519::Identity::generate().to_string();
        for wrong in ["", "age1", "age1wrong", secret.expose_secret()] {
            assert!(recipient(wrong).is_err());
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, why) in [("# nothing\n", "no age identity"), ("age1\n", "line 1")] {
            std::fs::write(&file, text).unwrap();
            let refused = identities_in(file.path()).err().unwrap();
            assert!(refused.contains(why) && refused.contains(file.path().to_str().unwrap()), "{refused}");
        }
    }
}

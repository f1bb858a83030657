//! A certificate and its key in two files, and whether they can be used.

use std::{
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustls::{
    CertificateError, Error, RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
    sign::CertifiedKey,
};
use secrecy::{ExposeSecret as _, SecretSlice};
use thesis_proto::time::format_millis;
use url::Url;

use super::provider;

/// Maximum bytes of a file. A chain of certificates has a few thousand.
const MAX_BYTES: u64 = 1024 * 1024;
/// The time, in milliseconds, in which a certificate should have been renewed before it expires.
const RENEWAL_WARNING_MS: i64 = 86_400_000;
/// The settings that name the files.
const CERTIFICATE: &str = "SVC_TLS_CERT";
const KEY: &str = "SVC_TLS_KEY";
/// The setting with the URL at which other cores find this one.
const ADVERTISED: &str = "SVC_ADVERTISE_URL";

/// The files of a certificate with those of its issuers, and of its private key, in PEM.
#[derive(Clone, Debug)]
pub struct PairFiles {
    /// The certificate, then its issuers'.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// The setting that cannot be used, or whose certificate others refuse, and why.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{setting}: {reason}; {remedy}")]
pub struct Unusable {
    /// The setting.
    pub setting: &'static str,
    /// Its value and the reason.
    pub reason: String,
    /// The remedy.
    pub remedy: &'static str,
}

impl Unusable {
    fn new(setting: &'static str, file: &Path, reason: impl fmt::Display, remedy: &'static str) -> Self {
        Self { setting, reason: format!("{}: {reason}", file.display()), remedy }
    }
}

/// The texts of both files.
pub(super) struct PairTexts {
    certificate: Vec<u8>,
    key: SecretSlice<u8>,
}

impl PartialEq for PairTexts {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate && self.key.expose_secret() == other.key.expose_secret()
    }
}

impl PairFiles {
    pub(super) fn read(&self) -> Result<PairTexts, Unusable> {
        let certificate = read(&self.certificate).map_err(|error| self.wrong_certificate(error))?;
        let key = read(&self.key).map_err(|error| self.wrong_key(error))?;
        Ok(PairTexts { certificate, key: key.into() })
    }

    /// The certificate with its key, if they belong together and it is valid now.
    pub(super) fn certified(&self, texts: &PairTexts, now_ms: i64) -> Result<CertifiedKey, Unusable> {
        let chain = CertificateDer::pem_slice_iter(&texts.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| self.wrong_certificate(error))?;
        let Some(own) = chain.first().cloned() else {
            return Err(self.wrong_certificate("it holds no certificate in PEM"));
        };
        let own = ParsedCertificate::try_from(&own).map_err(|error| self.wrong_certificate(error))?;
        judge_time(&own, now_ms)
            .map_err(|(reason, remedy)| Unusable::new(CERTIFICATE, &self.certificate, reason, remedy))?;
        // The error could show a part of the key.
        let key = PrivateKeyDer::from_pem_slice(texts.key.expose_secret())
            .map_err(|_| self.wrong_key("it holds no private key in PEM, or one that is encrypted"))?;
        let key = provider().key_provider.load_private_key(key);
        let key = key.map_err(|_| self.wrong_key("it is no key for RSA, ECDSA or Ed25519"))?;
        let certified = CertifiedKey::new(chain.clone(), key);
        certified.keys_match().map_err(|_| {
            let reason = format!("it is not the key of the certificate in {}", self.certificate.display());
            Unusable::new(KEY, &self.key, reason, "give the two that belong together")
        })?;
        Ok(certified)
    }

    /// The reasons why others refuse a usable certificate, or will refuse it soon. `advertised` is the URL at which
    /// other cores find the process.
    pub(super) fn doubts(&self, certified: &CertifiedKey, now_ms: i64, advertised: Option<&str>) -> Vec<Unusable> {
        let own = certified.end_entity_cert().and_then(ParsedCertificate::try_from);
        // A certificate in use was readable.
        let Ok(own) = own else { return Vec::new() };
        let doubt =
            |(reason, remedy): (String, &'static str)| Unusable::new(CERTIFICATE, &self.certificate, reason, remedy);
        let (refused, soon) = (refused(&own, now_ms), ends_soon(expires_at(certified), now_ms));
        let doubts = refused.into_iter().chain(soon).map(doubt);
        doubts.chain(advertised.and_then(|url| other_host(&own, url))).collect()
    }

    fn wrong_certificate(&self, reason: impl fmt::Display) -> Unusable {
        let remedy = "name a PEM file that the service's user can read, with the certificate and then its issuers'";
        Unusable::new(CERTIFICATE, &self.certificate, reason, remedy)
    }

    fn wrong_key(&self, reason: impl fmt::Display) -> Unusable {
        let remedy = "name a PEM file that the service's user can read, with the certificate's key, not encrypted";
        Unusable::new(KEY, &self.key, reason, remedy)
    }
}

/// Reads a file of bounded size. A pipe is refused: its other end might never come.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let refused = |error: std::io::Error| error.to_string();
    let about = std::fs::metadata(path).map_err(refused)?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err("it is no file of 1 MiB or less".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(refused)?.take(MAX_BYTES).read_to_end(&mut bytes).map_err(refused)?;
    Ok(bytes)
}

/// Checks that a certificate is valid at a time. The clients judge its issuer.
fn judge_time(certificate: &ParsedCertificate<'_>, now_ms: i64) -> Result<(), (String, &'static str)> {
    match judge(certificate, moment(now_ms)) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Err((format!("the certificate expired at {}", text(not_after)), "renew it"))
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
            Err((format!("the certificate is not valid before {}", text(not_before)), "look at this machine's clock"))
        }
        _ => Ok(()),
    }
}

/// The reason why clients refuse a certificate that is valid at a time, whoever its issuer is.
fn refused(certificate: &ParsedCertificate<'_>, now_ms: i64) -> Option<(String, &'static str)> {
    match judge(certificate, moment(now_ms)) {
        // No issuer is known here.
        Ok(()) | Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => None,
        Err(error) => Some((
            format!("roles, commands and many clients refuse it: {error}"),
            "take a certificate for servers that is no authority itself (CA:FALSE), issued by your authority",
        )),
    }
}

/// The warning that a certificate expires soon.
fn ends_soon(expires_at: Option<i64>, now_ms: i64) -> Option<(String, &'static str)> {
    let expires_at = expires_at.filter(|expires_at| expires_at - now_ms < RENEWAL_WARNING_MS)?;
    Some((format!("the certificate expires at {}", format_millis(expires_at)), "renew it"))
}

/// The warning that a certificate does not name the host of a URL.
fn other_host(certificate: &ParsedCertificate<'_>, url: &str) -> Option<Unusable> {
    let parsed = Url::parse(url).ok()?;
    let host = ServerName::try_from(parsed.host_str()?.trim_matches(['[', ']'])).ok()?;
    let error = verify_server_name(certificate, &host).err()?;
    let remedy = "name a host that the certificate in SVC_TLS_CERT names, or take one that names this host";
    Some(Unusable { setting: ADVERTISED, reason: format!("`{url}`: other cores refuse it: {error}"), remedy })
}

/// Expiry time of a certificate in milliseconds; `None` if it cannot be read.
pub(super) fn expires_at(certified: &CertifiedKey) -> Option<i64> {
    let certificate = ParsedCertificate::try_from(certified.end_entity_cert().ok()?).ok()?;
    // At the end of time every certificate has expired, and the error names when.
    match judge(&certificate, Duration::MAX) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => Some(millis(not_after)),
        _ => None,
    }
}

fn moment(now_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms).unwrap_or_default())
}

/// Judges a certificate at a time. It is judged itself before its issuers, and there are none.
fn judge(certificate: &ParsedCertificate<'_>, time: Duration) -> Result<(), Error> {
    let (time, algorithms) = (UnixTime::since_unix_epoch(time), provider().signature_verification_algorithms.all);
    verify_server_cert_signed_by_trust_anchor(certificate, &RootCertStore::empty(), &[], time, algorithms)
}

fn millis(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 1_000).saturating_mul(1_000)
}

fn text(time: UnixTime) -> String {
    format_millis(millis(time))
}

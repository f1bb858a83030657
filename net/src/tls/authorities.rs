//! The authorities whose certificates other processes may show.

use std::time::Duration;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tonic::transport::{Certificate, ClientTlsConfig};

/// Timeout for a core's part of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// Adds the root certificates of a PEM file; returns their number.
///
/// # Errors
/// Fails at the first one that cannot be used.
pub fn add_roots(roots: &mut RootCertStore, pem: &[u8]) -> Result<usize, String> {
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots.len() - before)
}

/// The authorities whose certificates cores may show: the public ones unless others are given.
#[derive(Clone, Debug, Default)]
pub struct Authorities(Option<Certificate>);

impl Authorities {
    /// These root certificates (PEM), in place of the public ones.
    ///
    /// # Errors
    /// Fails when there is none, or one that cannot be used.
    pub fn own(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        if add_roots(&mut roots, pem)? == 0 {
            return Err("it holds no certificate in PEM".to_owned());
        }
        Ok(Self(Some(Certificate::from_pem(pem))))
    }

    /// The client's TLS configuration.
    pub(crate) fn client(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().timeout(HANDSHAKE_TIMEOUT);
        match &self.0 {
            Some(roots) => config.ca_certificate(roots.clone()),
            None => config.with_enabled_roots(),
        }
    }
}

//! The authorities whose certificates other processes may show.

use std::time::Duration;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tonic::transport::{Certificate, ClientTlsConfig};

/// Timeout for a core's part of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// Adds the certificates of a PEM file to trusted ones, and returns their number.
///
/// # Errors
/// Fails when one cannot be used.
pub fn add_authorities(roots: &mut RootCertStore, pem: &[u8]) -> Result<usize, String> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        count += 1;
    }
    Ok(count)
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
        if add_authorities(&mut RootCertStore::empty(), pem)? == 0 {
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

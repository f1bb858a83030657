//! An authority of one's own, and clients that trust it alone.

use std::{fs, path::Path, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::harness::Setup;

/// An authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its root certificate in PEM.
    pub(super) root: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), root }
    }

    /// A certificate for this machine and its key, in PEM; one that has expired if asked for.
    pub(super) fn pair(&self, has_expired: bool) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        if has_expired {
            params.not_after = date_time_ymd(2020, 2, 2);
        }
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Puts a new certificate into a folder; gives it.
    pub(super) fn renew(&self, dir: &Path) -> CertificateDer<'static> {
        let (certificate, key) = self.pair(false);
        fs::write(dir.join("cert.pem"), &certificate).unwrap();
        fs::write(dir.join("key.pem"), key).unwrap();
        CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()
    }

    /// Connects by TLS to a process at this URL, which must show a certificate of this authority.
    pub(super) async fn connect(&self, url: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.root.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(url.strip_prefix("https://").unwrap()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// The certificate that a process shows now.
    pub(super) async fn shown(&self, url: &str) -> CertificateDer<'static> {
        let stream = self.connect(url).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// A gRPC channel that trusts this authority alone.
    pub(super) fn channel(&self, url: &str) -> Channel {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.root));
        Endpoint::from_shared(url.to_owned()).unwrap().tls_config(tls).unwrap().connect_lazy()
    }
}

/// The settings of a process that shows the certificate of a folder.
pub(super) fn with_certificate(setup: Setup, dir: &Path) -> Setup {
    let file = |name: &str| dir.join(name).display().to_string();
    setup.set("SVC_TLS_CERT", &file("cert.pem")).set("SVC_TLS_KEY", &file("key.pem"))
}

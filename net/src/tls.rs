//! TLS of this process: the certificate that its listeners show, and the authorities that it believes.
//!
//! A new certificate is taken up while the process runs. Only new handshakes see it: open connections go on as they
//! are.
//!
//! Its files are read again every 5 s. No session is resumed, so each handshake shows the present certificate. ALPN
//! prefers HTTP/1.1 at the edge, where streams then take less memory, and HTTP/2 at core.

mod authorities;
mod pair;
#[cfg(test)]
pub(crate) mod tests;

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    io,
    net::TcpStream,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use self::pair::{PairTexts, expires_at};
pub use self::{
    authorities::{Authorities, add_authorities},
    pair::{PairFiles, Unusable},
};
use crate::{blocking, clock::SharedClock, metric::seconds};

/// Interval between two checks of the files.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum encrypted bytes that wait for the peer to read them.
const MAX_WAITING: usize = 16 * 1024;

crate::declare_metrics! {
    fn declare;

    EXPIRES: Gauge = "tls_certificate_expiry_timestamp_seconds", &[],
        "Unix time at which the certificate expires that this process shows";
}

/// Named wherever TLS is used, because two providers are compiled in.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The configuration of a client that trusts these authorities.
#[must_use]
pub fn client_config(roots: RootCertStore) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    builder.expect("ring speaks them").with_root_certificates(roots).with_no_client_auth()
}

/// The certificate that listeners show, and its key.
pub struct Identity {
    files: PairFiles,
    clock: SharedClock,
    shown: RwLock<Arc<CertifiedKey>>,
    loaded: Mutex<LoadedFiles>,
}

/// The contents of the files at the last check.
struct LoadedFiles {
    /// The texts of the certificate that is shown.
    shown: PairTexts,
    /// The reason why newer texts cannot be used, and whether the log has reported it.
    wrong: Option<(Unusable, bool)>,
    /// True if the log has reported that the certificate expired.
    is_expiry_logged: bool,
}

/// The outcome of a check of the files.
#[derive(Debug, PartialEq)]
enum ReloadOutcome {
    /// The files hold the certificate that is shown.
    Unchanged,
    /// The files held a new certificate, which is shown from now on.
    Renewed,
    /// The files cannot be used, and the earlier certificate is still shown. A renewal may be half written, so only the
    /// second failed check returns the reason, once.
    Kept(Option<Unusable>),
}

impl Identity {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// Fails when a file cannot be read or used, they do not belong together, or the certificate is not valid now.
    pub fn load(files: PairFiles, clock: SharedClock) -> Result<Arc<Self>, Unusable> {
        let texts = files.read()?;
        let key = files.certified(&texts, clock.now_ms())?;
        let loaded = Mutex::new(LoadedFiles { shown: texts, wrong: None, is_expiry_logged: false });
        Ok(Arc::new(Self { files, clock, shown: RwLock::new(Arc::new(key)), loaded }))
    }

    /// The reasons why others refuse the certificate, or will refuse it soon. `advertised` is the URL at which other
    /// cores find this process.
    pub fn doubts(&self, advertised: Option<&str>) -> Vec<Unusable> {
        self.files.doubts(&self.shown.read(), self.clock.now_ms(), advertised)
    }

    /// Accepts TLS for these protocols, the preferred one first.
    pub fn acceptor(self: &Arc<Self>, protocols: &[&str]) -> Acceptor {
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let resolver = Arc::clone(self) as Arc<dyn ResolvesServerCert>;
        let mut config = builder.expect("ring speaks them").with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        // A resumed session would go on with a certificate that was replaced.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Acceptor(Arc::new(config))
    }

    /// Checks the files repeatedly, and loads a new certificate. Logs when the shown one has expired.
    pub async fn watch(self: Arc<Self>) {
        // Only where TLS is on.
        declare();
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let identity = Arc::clone(&self);
            match blocking::run(move || identity.reload()).await {
                Ok(ReloadOutcome::Renewed) => {
                    tracing::info!(certificate = %self.files.certificate.display(), "TLS certificate renewed")
                }
                Ok(ReloadOutcome::Kept(Some(reason))) => {
                    tracing::error!(%reason, "the renewed TLS certificate cannot be used; the one before is kept");
                }
                Ok(ReloadOutcome::Unchanged | ReloadOutcome::Kept(None)) => {}
                Err(error) => tracing::error!(%error, "the files of the TLS certificate were not looked at"),
            }
            let expires_at = expires_at(&self.shown.read());
            EXPIRES.one().set(expires_at.map_or(0.0, seconds));
            if self.has_just_expired(expires_at) {
                tracing::error!(
                    certificate = %self.files.certificate.display(),
                    "the TLS certificate has expired, and clients refuse it; renew it"
                );
            }
        }
    }

    /// True if the shown certificate has expired; only once for each certificate.
    fn has_just_expired(&self, expires_at: Option<i64>) -> bool {
        let has_expired = expires_at.is_some_and(|expires_at| expires_at < self.clock.now_ms());
        has_expired && !std::mem::replace(&mut self.loaded.lock().is_expiry_logged, true)
    }

    fn reload(&self) -> ReloadOutcome {
        let mut loaded = self.loaded.lock();
        let certified = self.files.read().and_then(|texts| {
            if texts == loaded.shown {
                return Ok(None);
            }
            Ok(Some((self.files.certified(&texts, self.clock.now_ms())?, texts)))
        });
        match certified {
            Ok(None) => {
                loaded.wrong = None;
                ReloadOutcome::Unchanged
            }
            Ok(Some((key, texts))) => {
                *self.shown.write() = Arc::new(key);
                *loaded = LoadedFiles { shown: texts, wrong: None, is_expiry_logged: false };
                ReloadOutcome::Renewed
            }
            Err(reason) => match &mut loaded.wrong {
                Some((known, is_logged)) if *known == reason => {
                    ReloadOutcome::Kept((!std::mem::replace(is_logged, true)).then_some(reason))
                }
                wrong => {
                    *wrong = Some((reason, false));
                    ReloadOutcome::Kept(None)
                }
            },
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read()))
    }
}

/// Makes connections of a listener speak TLS.
#[derive(Clone, Debug)]
pub struct Acceptor(Arc<ServerConfig>);

impl Acceptor {
    /// Shakes hands.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let limited = |session: &mut rustls::ServerConnection| session.set_buffer_limit(Some(MAX_WAITING));
        TlsAcceptor::from(Arc::clone(&self.0)).accept_with(stream, limited).await
    }
}

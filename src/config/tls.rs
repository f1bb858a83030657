//! The certificate of the listeners, and the authorities that cores are trusted by.

use std::{fs, path::PathBuf, sync::Arc};

use clap::Args;
use thesis_net::{
    clock::SharedClock,
    tls::{Authorities, Identity, PairFiles},
};

use super::Refused;

/// TLS without a load balancer.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Tls {
    /// Certificate (PEM, its issuers after it) of REST and gRPC, which then speak TLS alone; read again when it changes
    /// [default: none]
    #[arg(long, env = "SVC_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM) [default: none]
    #[arg(long, env = "SVC_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Root certificates (PEM) that a core at https:// is trusted by, in place of the public ones [default: none]
    #[arg(long, env = "SVC_CORE_CA_FILE", value_name = "FILE")]
    core_ca_file: Option<PathBuf>,
}

impl Tls {
    /// The scheme of the listeners' URLs.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    /// The certificate of the listeners; none where they are plain.
    pub(crate) fn identity(&self, clock: &SharedClock) -> Result<Option<Arc<Identity>>, Refused> {
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (Some(_), None) => {
                return Err(Refused::new("SVC_TLS_KEY", "SVC_TLS_CERT needs a key").remedy("name its file (PEM)"));
            }
            (None, Some(_)) => {
                let refused = Refused::new("SVC_TLS_CERT", "SVC_TLS_KEY needs a certificate");
                return Err(refused.remedy("name its file (PEM)"));
            }
        };
        let identity = Identity::load(PairFiles { certificate, key }, Arc::clone(clock));
        identity.map(Some).map_err(|unusable| Refused::new(unusable.setting, unusable.reason).remedy(unusable.remedy))
    }

    /// The authorities whose certificates cores may show.
    pub(crate) fn authorities(&self) -> Result<Authorities, Refused> {
        let Some(path) = &self.core_ca_file else { return Ok(Authorities::default()) };
        let pem = fs::read(path).map_err(|error| error.to_string());
        let read = pem.and_then(|pem| Authorities::own(&pem));
        read.map_err(|reason| Refused::roots("SVC_CORE_CA_FILE", path, reason))
    }
}

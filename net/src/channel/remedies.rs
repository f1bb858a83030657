//! Remedies for TLS errors between this process and core.

use std::{error::Error, io, sync::Arc};

use rustls::CertificateError;
use tonic::Status;

use crate::causes::causes;

/// The remedy for a failed call, carried as the source of its error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Remedy(&'static str);

/// The remedy for a call that reached no core because of TLS; `None` when the error suggests none.
pub fn remedy(status: &Status) -> Option<&'static str> {
    status.source()?.downcast_ref::<Remedy>().map(|remedy| remedy.0)
}

/// The error of a call that reached no core.
pub(super) fn unavailable(reason: String, remedy: Option<&'static str>) -> Status {
    let mut status = Status::unavailable(reason);
    if let Some(remedy) = remedy {
        status.set_source(Arc::new(Remedy(remedy)));
    }
    status
}

/// The remedy for an error of a core at an address.
pub(super) fn remedy_for(error: &(dyn Error + 'static), address: &str) -> Option<&'static str> {
    match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(error)) => Some(remedy_for_certificate(error)),
        Some(rustls::Error::InvalidMessage(_)) => Some(
            "name the core by http:// if it has no SVC_TLS_CERT: in SVC_CORE_URL, between cores in its \
             SVC_ADVERTISE_URL",
        ),
        // A TLS listener closes a connection that begins without a handshake.
        None if !address.starts_with("https://") && is_broken_off(error) => {
            Some("name the core by https:// in SVC_CORE_URL if it has SVC_TLS_CERT; otherwise look at its log")
        }
        _ => None,
    }
}

fn remedy_for_certificate(error: &CertificateError) -> &'static str {
    match error {
        // Two authorities may have the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "set SVC_CORE_CA_FILE to the root certificate of the authority that issued the core's certificate; issuers \
             in between belong into the core's SVC_TLS_CERT"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "name the core by a host that its certificate names: in SVC_CORE_URL, between cores in its \
             SVC_ADVERTISE_URL; or give it a certificate that names this host"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the core's certificate, and look at this machine's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "look at this machine's clock",
        _ => {
            "give the core a certificate for servers that is no authority itself (CA:FALSE), issued by the authority \
             in SVC_CORE_CA_FILE"
        }
    }
}

/// The TLS error that caused an error, such as an untrusted certificate.
pub(super) fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref())
}

/// True if the other side accepted the connection and then closed it.
fn is_broken_off(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(|error| !error.is_timeout()))
}

#[cfg(test)]
mod tests {
    use rustls::InvalidMessage;

    use super::*;

    #[test]
    fn an_error_of_tls_tells_what_to_do() {
        let remedy_for = |error: rustls::Error| remedy_for(&io::Error::other(error), "https://core-1:50051");
        for (error, todo) in [
            (CertificateError::UnknownIssuer, "set SVC_CORE_CA_FILE"),
            (CertificateError::BadSignature, "set SVC_CORE_CA_FILE"),
            (CertificateError::NotValidForName, "a host that its certificate names"),
            (CertificateError::Expired, "renew the core's certificate"),
            (CertificateError::NotValidYet, "clock"),
            (CertificateError::InvalidPurpose, "CA:FALSE"),
        ] {
            let text = remedy_for(error.clone().into()).unwrap();
            assert!(text.contains(todo), "{error:?}: {text}");
        }
        assert!(remedy_for(InvalidMessage::InvalidContentType.into()).unwrap().contains("by http://"));
        assert_eq!(remedy_for(rustls::Error::DecryptError), None);
    }

    #[test]
    fn a_remedy_is_beside_the_reason() {
        let status = unavailable("away".to_owned(), Some("come back"));
        assert_eq!((status.message(), remedy(&status)), ("away", Some("come back")));
        assert_eq!(remedy(&unavailable("away".to_owned(), None)), None);
    }
}

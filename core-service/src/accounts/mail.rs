//! Mail to people, by SMTP. No caller waits for it: mail is queued, and each one has three attempts.
//!
//! A mail holds a link that lets its reader in. So the logs contain only the domain of its address.

mod letter;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, net::IpAddr, time::Duration};

use futures::StreamExt as _;
use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor,
    message::Mailbox,
    transport::smtp::{
        Error as SmtpError,
        authentication::Credentials,
        client::{Tls, TlsParameters},
        extension::ClientId,
    },
};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use url::{Host, Url};

pub use self::letter::Letter;
use crate::{
    error::{Error, Result},
    metrics::MAILS,
};

const MAX_WAITING: usize = 1_000;
const MAX_CONCURRENT_SENDS: usize = 4;
/// Timeout of one attempt.
const TRY: Duration = Duration::from_secs(20);
/// Pauses between the attempts of one mail.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// Error for an unusable URL, without the URL, which may hold credentials.
const FORM: &str = "it must have the form smtp://host:port or smtps://user:password@host:port";

type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// Settings of mail.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// `smtp://user:password@host:port`, or `smtps://…` for TLS from the start. User and password are optional.
    pub url: SecretString,
    /// The sender: an address, or `Name <address>`.
    pub from: String,
}

impl MailSettings {
    /// Checks the settings. An error names the wrong variable and its fault, without its value.
    pub fn new(url: SecretString, from: String) -> std::result::Result<Self, (&'static str, &'static str)> {
        transport(url.expose_secret(), &from)?;
        Ok(Self { url, from })
    }
}

pub struct Mail {
    /// The queue and the task that sends it; none once it is closed.
    sending: Mutex<Option<(mpsc::Sender<Letter>, JoinHandle<()>)>>,
}

impl Mail {
    pub fn new(settings: MailSettings) -> Result<Self> {
        let MailSettings { url, from } = settings;
        let (transport, from) = transport(url.expose_secret(), &from)
            .map_err(|(variable, reason)| Error::internal(format!("{variable}: {reason}")))?;
        let (queue, queued) = mpsc::channel(MAX_WAITING);
        let sending = tokio::spawn(send_all(transport, from, queued));
        Ok(Self { sending: Mutex::new(Some((queue, sending))) })
    }

    /// Queues a mail. It is dropped with a log line if the queue is full or every attempt fails.
    pub fn post(&self, letter: Letter) {
        let sending = self.sending.lock();
        let Some((queue, _)) = &*sending else { return };
        if let Err(TrySendError::Full(letter) | TrySendError::Closed(letter)) = queue.try_send(letter) {
            MAILS.at("dropped").increment(1);
            tracing::error!(domain = letter.domain(), "too many letters wait; one is not sent");
        }
    }

    /// Closes the queue, and waits for the mail in it up to a limit.
    pub async fn close(&self, time_limit: Duration) {
        let Some((queue, sending)) = self.sending.lock().take() else { return };
        drop(queue);
        if timeout(time_limit, sending).await.is_err() {
            tracing::warn!("some letters were not sent");
        }
    }
}

async fn send_all(transport: Transport, from: Mailbox, queued: mpsc::Receiver<Letter>) {
    let (transport, from) = (&transport, &from);
    ReceiverStream::new(queued).for_each_concurrent(MAX_CONCURRENT_SENDS, |letter| send(transport, from, letter)).await;
}

async fn send(transport: &Transport, from: &Mailbox, letter: Letter) {
    let domain = letter.domain();
    let message = match letter.message(from) {
        Ok(message) => message,
        Err(reason) => {
            MAILS.at("failed").increment(1);
            tracing::error!(domain, reason, "a letter cannot be written");
            return;
        }
    };
    let text = message.formatted();
    let mut pauses = PAUSES.into_iter();
    loop {
        let tried = timeout(TRY, transport.send_raw(message.envelope(), &text)).await;
        let (reason, is_final) = match &tried {
            Ok(Ok(_)) => {
                MAILS.at("sent").increment(1);
                tracing::debug!(domain, "a letter was sent");
                return;
            }
            Ok(Err(error)) => (failure_reason(error), error.is_permanent()),
            Err(_) => ("the server was too slow".to_owned(), false),
        };
        match pauses.next().filter(|_| !is_final) {
            Some(pause) => {
                MAILS.at("retried").increment(1);
                tracing::warn!(domain, reason, "a letter was not sent, trying again");
                sleep(pause).await;
            }
            None => {
                MAILS.at("failed").increment(1);
                tracing::error!(domain, reason, "a letter was not sent");
                return;
            }
        }
    }
}

/// Describes the failure of an attempt. It leaves out the server's own words, since they may repeat the address.
fn failure_reason(error: &SmtpError) -> String {
    match error.status() {
        Some(code) => format!("the server answered {code}"),
        None if error.is_response() => "the server's answer cannot be read".to_owned(),
        None => error.to_string(),
    }
}

fn transport(url: &str, from: &str) -> std::result::Result<(Transport, Mailbox), (&'static str, &'static str)> {
    let from = parse_sender(from)
        .ok_or(("SVC_MAIL_FROM", "it must be an e-mail address, or a name and one: Name <address>"))?;
    let transport = build_transport(url, &from).map_err(|reason| ("SVC_SMTP_URL", reason))?;
    Ok((transport, from))
}

fn parse_sender(text: &str) -> Option<Mailbox> {
    let text = text.trim();
    if text.chars().any(char::is_control) { None } else { text.parse().ok() }
}

/// Builds the transport of a URL. With `smtp` the connection starts in plain text, and then changes to TLS: always with
/// credentials, otherwise if the server can. On this machine it stays in plain text.
fn build_transport(url: &str, from: &Mailbox) -> std::result::Result<Transport, &'static str> {
    let url = Url::parse(url.trim()).map_err(|_| FORM)?;
    let is_wrapped = match url.scheme() {
        "smtp" => false,
        "smtps" => true,
        _ => return Err(FORM),
    };
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err("nothing may follow the host and port");
    }
    let host = match url.host() {
        Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
        Some(Host::Ipv4(ip)) => ip.to_string(),
        Some(Host::Ipv6(ip)) => ip.to_string(),
        _ => return Err(FORM),
    };
    let credentials = match (url.username(), url.password()) {
        ("", None) => None,
        ("", Some(_)) => return Err("a password needs a user"),
        (_, None) => return Err("a user needs a password"),
        (user, Some(password)) => Some(Credentials::new(decode_part(user)?, decode_part(password)?)),
    };
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let tls = TlsParameters::builder(host.clone());
    // Where TLS is optional, an attacker with a wrong certificate could as well refuse TLS.
    let tls = tls.dangerous_accept_invalid_certs(!is_wrapped && credentials.is_none());
    let tls = tls.build_rustls().map_err(|_| "TLS cannot be set up for it")?;
    let (tls, port) = match (is_wrapped, is_here, credentials.is_some()) {
        (true, ..) => (Tls::Wrapper(tls), 465),
        (false, true, _) => (Tls::None, 25),
        (false, false, true) => (Tls::Required(tls), 587),
        (false, false, false) => (Tls::Opportunistic(tls), 25),
    };
    let mut builder = Transport::builder_dangerous(host)
        .port(url.port().unwrap_or(port))
        .tls(tls)
        .timeout(Some(TRY))
        .hello_name(ClientId::Domain(from.email.domain().to_owned()));
    if let Some(credentials) = credentials {
        builder = builder.credentials(credentials);
    }
    Ok(builder.build())
}

fn decode_part(part: &str) -> std::result::Result<String, &'static str> {
    percent_decode_str(part).decode_utf8().map(Cow::into_owned).map_err(|_| FORM)
}

//! Calls: requests that are sent when they are awaited, and repeated when that helps.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    Stream, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use reqwest::Response;
use serde::de::DeserializeOwned;

use crate::{
    client::{Client, broken},
    error::Error,
    page::Page,
    request::Request,
    retry::pause_after,
};

/// Rows per page when a whole list is read.
const MAX_PAGE_SIZE: usize = 100;

/// Reads a response.
type Read<T> = fn(Response) -> BoxFuture<'static, Result<T, Error>>;

/// A call that is sent when it is awaited.
#[must_use = "nothing is sent until the call is awaited"]
pub struct Call<T> {
    client: Client,
    request: Request,
    read: Read<T>,
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { method, path, .. } = &self.request;
        formatter.debug_struct("Call").field("method", method).field("path", path).finish_non_exhaustive()
    }
}

impl<T> Clone for Call<T> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), request: self.request.clone(), read: self.read }
    }
}

impl<T: DeserializeOwned + Send + 'static> Call<T> {
    /// A call with a JSON response.
    pub(crate) fn json(client: &Client, request: Request) -> Self {
        let read: Read<T> = |response| {
            Box::pin(async move {
                let body = response.bytes().await.map_err(broken)?;
                serde_json::from_slice(&body).map_err(|error| Error::Form(Box::new(error)))
            })
        };
        Self { client: client.clone(), request, read }
    }
}

impl Call<String> {
    /// A call with a text response.
    pub(crate) fn text(client: &Client, request: Request) -> Self {
        let read: Read<String> = |response| {
            Box::pin(async move {
                let body = response.bytes().await.map_err(broken)?;
                String::from_utf8(body.to_vec()).map_err(|error| Error::Form(Box::new(error)))
            })
        };
        Self { client: client.clone(), request, read }
    }
}

impl Call<Download> {
    /// A download: a call whose response is read while it arrives.
    pub(crate) fn download(client: &Client, request: Request) -> Self {
        let read: Read<Download> = |response| Box::pin(async move { Ok(Download(response)) });
        Self { client: client.clone(), request, read }
    }

    /// Reads a part of the file, such as `bytes=0-1023`.
    pub fn range(mut self, range: &str) -> Self {
        self.request.range = Some(range.to_owned());
        self
    }
}

impl<T> Call<T> {
    /// Sets the idempotency key, in place of a random one. A call with the same key and the same parameters within 24
    /// hours changes nothing and returns the first response, also from another process. Calls that change nothing
    /// ignore the key.
    pub fn idempotency_key(mut self, key: &str) -> Self {
        self.request.idempotency_key = self.request.is_keyed.then(|| key.to_owned());
        self
    }

    /// Sets the timeout of one try. For a download it covers only the head of the response.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of retries of this call, and 0 turns retries off.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.request.max_retries = Some(retries);
        self
    }

    async fn send(mut self) -> Result<T, Error> {
        if let Some(fault) = self.request.fault.take() {
            return Err(Error::Usage(fault));
        }
        if self.request.is_keyed && self.request.idempotency_key.is_none() {
            self.request.idempotency_key = Some(random_uuid()?);
        }
        let timeout = self.request.timeout.unwrap_or_else(|| self.client.timeout());
        let max_retries = self.request.max_retries.unwrap_or_else(|| self.client.max_retries());
        let mut attempt = 1;
        loop {
            let once = async { (self.read)(self.client.send(&self.request).await?).await };
            let error = match tokio::time::timeout(timeout, once).await {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) => error,
                Err(_) => Error::Timeout,
            };
            match pause_after(&error, attempt).filter(|_| attempt <= max_retries) {
                Some(pause) => self.client.sleep(pause).await,
                None => return Err(error),
            }
            attempt += 1;
        }
    }
}

impl<T: Send + 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl<T: Send + 'static> Call<Page<T>> {
    /// The rows of this page and of all later ones.
    pub fn rows(mut self) -> Rows<T> {
        if !self.request.query.0.iter().any(|(name, _)| name == "limit") {
            self.request.query.set("limit", MAX_PAGE_SIZE.to_string());
        }
        let pages = stream::try_unfold(Some(self), |call| async move {
            let Some(mut call) = call else { return Ok(None) };
            let page = call.clone().send().await?;
            let next = page.next_cursor.filter(|_| page.has_more).map(|cursor| {
                call.request.query.set("cursor", cursor);
                call
            });
            Ok::<_, Error>(Some((page.data, next)))
        });
        let rows = pages.flat_map(|page: Result<Vec<T>, Error>| match page {
            Ok(rows) => stream::iter(rows.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        });
        Rows(rows.boxed())
    }
}

/// The rows of all pages of a list. It ends with the first error.
#[must_use = "nothing is sent until the stream is read"]
pub struct Rows<T>(BoxStream<'static, Result<T, Error>>);

impl<T> fmt::Debug for Rows<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Rows").finish_non_exhaustive()
    }
}

impl<T> Stream for Rows<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

/// The content of a file, while it arrives.
#[derive(Debug)]
pub struct Download(Response);

impl Download {
    /// Reads the next piece; none at the end.
    ///
    /// # Errors
    /// Fails if the connection breaks. Read the rest with [`Call::range`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.0.chunk().await.map_err(broken)
    }

    /// The whole content.
    ///
    /// # Errors
    /// Fails if the connection breaks.
    pub async fn bytes(self) -> Result<Bytes, Error> {
        self.0.bytes().await.map_err(broken)
    }
}

/// A random UUID of version 4.
fn random_uuid() -> Result<String, Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| Error::Usage(format!("there are no random numbers: {error}")))?;
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let digits = hex::encode(random);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Ok(parts.join("-"))
}

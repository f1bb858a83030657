//! An open request until its response, and the response until the peer has read its last byte.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Extensions, Response, Version};
use hyper::body::{Body, Frame, SizeHint};

use super::{
    connections::{Connections, Room, SLOW_TIME},
    counted::count_refused,
    meter::Meter,
};

/// Marks a response that may stay open for long although its client does not wait for it. Its connection counts as
/// idle, so the server may close it when all connections are in use.
#[derive(Clone, Copy, Debug)]
pub struct UnattendedResponse;

/// Marks a response that is ready although the size of its body is unknown. Only the client delays it.
#[derive(Clone, Copy, Debug)]
pub struct ReadyResponse;

/// Marks the response of a request that a limit of its connection or network refused. The server reads a connection
/// with many such responses slowly.
#[derive(Clone, Copy, Debug)]
pub struct RefusedRequest;

/// The connection of a request, and all connections of its server.
#[derive(Clone, Debug)]
pub(super) struct ConnectionEntry {
    pub(super) meter: Arc<Meter>,
    pub(super) connections: Arc<Connections>,
}

impl ConnectionEntry {
    /// Counts a request, whose head is complete.
    pub(super) fn begin(&self, version: Version) -> OpenRequest {
        self.meter.begin(version);
        OpenRequest(Some(self.clone()))
    }

    fn hold(&self, bytes: usize) -> Option<Room> {
        self.connections.hold(&self.meter, bytes)
    }

    /// Takes room for a part of a begun response, so that no refusal can replace it. Without room a slow peer
    /// is cut off; one that reads its bytes may continue.
    pub(super) fn hold_part(&self, bytes: usize) -> Option<Room> {
        let room = self.hold(bytes);
        if room.is_none() && (self.meter.held_longer_than(SLOW_TIME).is_some() || self.meter.is_blocked_for(SLOW_TIME))
        {
            self.meter.close();
        }
        room
    }
}

/// A request without a response. Its drop counts it as cancelled.
pub(super) struct OpenRequest(Option<ConnectionEntry>);

impl OpenRequest {
    /// The takeover of the connection is the response to the request.
    pub(super) fn taken_over(mut self) -> OpenResponse {
        let place = self.0.take().expect("it is answered once");
        place.meter.is_ready(false);
        OpenResponse { place, kind: Kind::Stream, _room: None }
    }

    /// Takes the response, or the refusal when unread responses leave no room for it.
    pub(super) fn respond<B: Body>(
        mut self,
        response: Response<B>,
        refusal: impl FnOnce() -> Response<B>,
    ) -> Response<MeteredBody<B>> {
        let place = self.0.take().expect("it is answered once");
        if response.extensions().get::<RefusedRequest>().is_some() {
            place.meter.was_refused();
        }
        let Some(size) = response.body().size_hint().exact() else {
            let kind = Kind::of(response.extensions());
            place.meter.is_ready(kind == Kind::Ready);
            if kind == Kind::Unattended {
                place.meter.ended();
            }
            return response.map(|body| MeteredBody { body, taking: Some(OpenResponse { place, kind, _room: None }) });
        };
        let room = place.hold(usize::try_from(size).unwrap_or(usize::MAX));
        let response = if room.is_some() {
            response
        } else {
            count_refused(place.connections.name, "answers");
            refusal()
        };
        place.meter.is_ready(true);
        response.map(|body| MeteredBody { body, taking: Some(OpenResponse { place, kind: Kind::Whole, _room: room }) })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(place) = self.0.take() {
            place.meter.gave_up();
        }
    }
}

/// The way in which a response arrives and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The whole body holds room, so its frames take none.
    Whole,
    /// The response is ready, and each of its parts takes room.
    Ready,
    /// The response arrives in parts as they are created.
    Stream,
    /// The response arrives in parts, and its connection counts as idle.
    Unattended,
}

impl Kind {
    /// The kind of a response of unknown size.
    fn of(marks: &Extensions) -> Self {
        match (marks.get::<ReadyResponse>(), marks.get::<UnattendedResponse>()) {
            (Some(ReadyResponse), _) => Self::Ready,
            (None, Some(UnattendedResponse)) => Self::Unattended,
            (None, None) => Self::Stream,
        }
    }
}

/// A response that the peer has not read completely.
#[derive(Debug)]
pub(super) struct OpenResponse {
    pub(super) place: ConnectionEntry,
    kind: Kind,
    _room: Option<Room>,
}

impl Drop for OpenResponse {
    fn drop(&mut self) {
        match self.kind {
            Kind::Whole | Kind::Ready => self.place.meter.was_taken(true),
            Kind::Stream => self.place.meter.was_taken(false),
            // It was counted when it began.
            Kind::Unattended => {}
        }
    }
}

/// Bytes of a response, which count until they are written.
struct HeldBytes {
    bytes: Bytes,
    _room: Option<Room>,
    _taking: Option<OpenResponse>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that counts until the peer has read it.
pub struct MeteredBody<B> {
    body: B,
    taking: Option<OpenResponse>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for MeteredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        let ends = this.body.is_end_stream();
        let hold = |bytes: Bytes| {
            let part_of = this.taking.as_ref().filter(|taking| taking.kind != Kind::Whole);
            let room = part_of.and_then(|OpenResponse { place, .. }| place.hold_part(bytes.len()));
            // The connection may drop the body long before it has written its last bytes.
            let taking = if ends { this.taking.take() } else { None };
            if room.is_none() && taking.is_none() {
                return bytes;
            }
            Bytes::from_owner(HeldBytes { bytes, _room: room, _taking: taking })
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

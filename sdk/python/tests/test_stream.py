"""Streams: the parser, and how they survive breaks."""

from __future__ import annotations

import asyncio
import json
import unittest
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from helpers import Script, async_client, client, refusal

from trade_thesis import ApiConnectionError, EventMessage, GapMessage, errors
from trade_thesis._sse import Parser
from trade_thesis.types import StreamGap, UnknownEvent


def event(number: int, kind: str = "later.type") -> str:
    """A frame with an event."""
    content = {"object": "event", "type": kind, "id": f"evt_{number}", "created_at": "2026-01-31T12:00:00.000Z"}
    return f"id: c{number}\nevent: {kind}\ndata: {json.dumps(content | {'livemode': False, 'source': 'sandbox'})}\n\n"


def position(cursor: str, kind: str = "stream.cursor") -> str:
    """A frame with a cursor alone."""
    return f"id: {cursor}\nevent: {kind}\ndata: {json.dumps({'object': 'stream_cursor', 'cursor': cursor})}\n\n"


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of a stream, which may break at its end."""

    def __init__(self, *pieces: str, breaks: bool = False) -> None:
        self._pieces = [piece.encode() for piece in pieces]
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._breaks:
            raise httpx.ReadTimeout("silence")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def stream(*pieces: str, breaks: bool = False) -> httpx.Response:
    """A response with frames."""
    return httpx.Response(200, stream=Body(*pieces, breaks=breaks), headers={"Content-Type": "text/event-stream"})


GAP = {"first_cursor": "c0", "last_cursor": "c4", "skipped": 2, "path": "/v1/events?token=RUN&text=a%26b"}


class Parsing(unittest.TestCase):
    def test_it_reads_frames_in_any_pieces(self) -> None:
        text = (
            ": ping\r\nretry: 1500\r\n\r\nid: 1\r\nevent: a\r\ndata: one\r\ndata:two \u2028é\r\n\r\n"
            "data\ndata: x\n\nid: 2\nevent: left out\n\nid: no\0\ndata: y\r\rretry: 1s\ndata: z\r\n\ndata: unfinished"
        )
        expected = [
            ("a", "one\ntwo \u2028é", "1"),
            ("message", "\nx", "1"),
            ("message", "y", "2"),
            ("message", "z", "2"),
        ]
        content = text.encode()
        for size in (1, 2, 3, 7, len(content)):
            parser = Parser()
            pieces = [content[at : at + size] for at in range(0, len(content), size)]
            frames = [frame for piece in pieces for frame in parser.feed(piece)]
            self.assertEqual([(frame.event, frame.data, frame.id) for frame in frames], expected)
            self.assertEqual(parser.retry, 1500)


class Following(unittest.TestCase):
    def script(self) -> Script:
        """A stream that breaks in every way, and ends."""
        gap = f"id: c4\nevent: stream.gap\ndata: {json.dumps(GAP)}\n\n"
        return Script(
            httpx.ConnectError("refused"),
            stream("retry: 20\n\n", position("c0"), event(1), "id: c2\nevent: later.type\nda"),
            stream(event(2), breaks=True),
            httpx.ReadError("reset"),
            refusal(429, "STREAM_LIMIT_REACHED", "rate_limit", Retry_After="300"),
            refusal(503, "SERVICE_UNAVAILABLE", "internal"),
            stream(gap, event(5), position("c6")),
            stream(position("c7", "stream.end")),
        )

    def check(self, messages: list[Any], script: Script, pauses: list[float]) -> None:
        """What comes of that."""
        found = [message.gap.path if isinstance(message, GapMessage) else message.event.id for message in messages]
        self.assertEqual(found, ["evt_1", "evt_2", GAP["path"], "evt_5"])
        self.assertEqual([message.cursor for message in messages], ["c1", "c2", "c4", "c5"])
        cursors = [request.headers.get("Last-Event-ID") for request in script.requests]
        self.assertEqual(cursors, ["start", "start", "c1", "c2", "c2", "c2", "c2", "c6"])
        # The server's own pause after a break, then pauses that grow; and the longest that it asks for.
        self.assertEqual((pauses[1], pauses[2], pauses[6]), (0.02, 0.02, 0.02))
        self.assertGreater(pauses[4], 300)
        self.assertEqual(len(pauses), 7)

    def test_it_resumes_over_any_break(self) -> None:
        script = self.script()
        made, pauses = client(script)
        with made.stream_events(token="RUN", cursor="start") as messages:
            self.check(list(messages), script, pauses)
            self.assertEqual(messages.cursor, "c7")
        request = script.requests[0]
        self.assertEqual((str(request.url.params), request.headers["Accept"]), ("token=RUN", "text/event-stream"))
        # The first connection never opens. The second one may be silent once it is open.
        self.assertEqual([one.extensions["timeout"]["read"] for one in script.requests[:2]], [15, 45])

    def test_with_asyncio_too(self) -> None:
        async def read(script: Script) -> tuple[list[Any], list[float]]:
            made, pauses = async_client(script)
            async with made.stream_events(token="RUN", cursor="start") as messages:
                return [message async for message in messages], pauses

        script = self.script()
        messages, pauses = asyncio.run(read(script))
        self.check(messages, script, pauses)

    def test_an_event_of_a_later_type_is_no_error(self) -> None:
        made, _ = client(Script(stream(event(1)), httpx.Response(204)))
        [message] = made.stream_events()
        assert isinstance(message, EventMessage)
        self.assertIsInstance(message.event, UnknownEvent)

    def test_the_end_of_a_replay_is_204_too(self) -> None:
        made, pauses = client(Script(httpx.Response(204)))
        self.assertEqual((list(made.stream_events(cursor="c7")), pauses), ([], []))

    def test_it_ends_where_no_repetition_helps(self) -> None:
        refused = refusal(401, "API_KEY_REVOKED", "authentication")
        made, _ = client(Script(stream(event(1)), refused))
        messages = made.stream_events()
        next(messages)
        with self.assertRaises(errors.AuthenticationError):
            next(messages)
        made, pauses = client(Script(*[httpx.ConnectError("refused")] * 6))
        with self.assertRaises(ApiConnectionError):
            next(made.stream_events())
        self.assertEqual(len(pauses), 5)

    def test_a_frame_that_is_no_event_is_told(self) -> None:
        made, _ = client(Script(stream("event: thesis.created\ndata: {}\n\n")))
        with self.assertRaises(errors.UnexpectedResponseError):
            next(made.stream_events())

    def test_the_events_of_a_gap_can_be_read(self) -> None:
        row = json.loads(event(3).splitlines()[2].removeprefix("data: "))
        page = {"data": [row], "next_cursor": None, "has_more": False}
        script = Script(
            stream(f"id: c4\nevent: stream.gap\ndata: {json.dumps(GAP)}\n\n"), httpx.Response(200, json=page)
        )
        made, _ = client(script)
        message = next(made.stream_events())
        assert isinstance(message, GapMessage)
        self.assertEqual([one.id for one in made.missed_events(message.gap)], ["evt_3"])
        self.assertEqual(script.requests[1].url.raw_path.decode(), "/v1/events?token=RUN&text=a%26b&limit=100")

    def test_a_gap_leads_to_no_other_service(self) -> None:
        script = Script()
        made, _ = client(script)
        for path in ("https://a.example/v1/events", "//a.example/v1/events", "@a.example/v1/events", "/v1/theses"):
            with self.assertRaises(ValueError):
                next(made.missed_events(StreamGap.read({**GAP, "path": path})))
        self.assertEqual(script.requests, [])


if __name__ == "__main__":
    unittest.main()

"""A try ends in time, whatever its response does."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import threading
import time
import unittest
from collections.abc import AsyncIterator, Iterator

import httpx
from helpers import KEY, Script, async_client, client

from trade_thesis import ApiTimeoutError, AsyncClient, Client

SOON = 30.0
"""Seconds until a test gives up."""


class Drip(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body of spaces, each of which comes long before a read would time out. It has no end."""

    def __init__(self) -> None:
        self.is_closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        while not self.is_closed.wait(0.001):
            yield b" "

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.001)
            yield b" "

    def close(self) -> None:
        self.is_closed.set()

    async def aclose(self) -> None:
        self.is_closed.set()


class Timeouts(unittest.TestCase):
    def test_a_body_that_drips_ends_with_its_try(self) -> None:
        drips = [Drip(), Drip()]
        made, pauses = client(
            Script(*(httpx.Response(200, stream=drip) for drip in drips)), timeout=0.05, max_retries=1
        )
        with self.assertRaises(ApiTimeoutError):
            made.get_me()
        self.assertEqual(len(pauses), 1)
        self.assertTrue(all(drip.is_closed.wait(SOON) for drip in drips))

    def test_a_file_may_take_longer_than_a_try(self) -> None:
        made, _ = client(Script(httpx.Response(200, stream=Pieces(b"PAR1", 0.03))), timeout=0.05, max_retries=0)
        self.assertEqual(made.get_archive_file("2026-01-31", "theses.parquet"), b"PAR1")

    def test_with_asyncio_too(self) -> None:
        drip = Drip()
        made, pauses = async_client(Script(httpx.Response(200, stream=drip)), timeout=0.05, max_retries=0)
        with self.assertRaises(ApiTimeoutError):
            asyncio.run(asyncio.wait_for(made.get_me(), SOON))
        self.assertEqual((pauses, drip.is_closed.is_set()), ([], True))

    def test_a_stream_opens_in_time(self) -> None:
        with silent_service() as address:
            with Client(address, KEY, timeout=0.05, max_retries=0) as made, self.assertRaises(ApiTimeoutError):
                next(made.stream_events())
            asyncio.run(asyncio.wait_for(self.open_with_asyncio(address), SOON))

    async def open_with_asyncio(self, address: str) -> None:
        """Opens a stream that never responds."""
        async with AsyncClient(address, KEY, timeout=0.05, max_retries=0) as made:
            with self.assertRaises(ApiTimeoutError):
                await anext(made.stream_events())

    def test_a_refusal_of_a_stream_ends_in_time(self) -> None:
        drip = Drip()
        made, _ = client(Script(httpx.Response(503, stream=drip)), timeout=0.05, max_retries=0)
        with self.assertRaises(ApiTimeoutError):
            next(made.stream_events())
        self.assertTrue(drip.is_closed.is_set())

    def test_a_compressed_response_is_read(self) -> None:
        body = gzip.compress(b"note")
        made, _ = client(Script(httpx.Response(200, stream=Pieces(body), headers={"Content-Encoding": "gzip"})))
        self.assertEqual(made.get_checkpoint("live"), "note")


@contextlib.contextmanager
def silent_service() -> Iterator[str]:
    """The address of a service that takes connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


class Pieces(httpx.SyncByteStream):
    """A body that comes byte by byte, with a pause before each."""

    def __init__(self, body: bytes, pause: float = 0) -> None:
        self._body, self._pause = body, pause

    def __iter__(self) -> Iterator[bytes]:
        for place in range(len(self._body)):
            time.sleep(self._pause)
            yield self._body[place : place + 1]


if __name__ == "__main__":
    unittest.main()

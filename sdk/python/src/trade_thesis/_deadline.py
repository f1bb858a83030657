"""Bounds a whole try: a timeout of httpx bounds one read, so it never ends a response that drips."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

LATE = "the service did not respond in time"


async def send_async(client: httpx.AsyncClient, arguments: dict[str, Any]) -> httpx.Response:
    """Sends a request and reads its response, within the timeout of its arguments."""
    try:
        return await asyncio.wait_for(client.request(**arguments), arguments["timeout"])
    except asyncio.TimeoutError:
        raise httpx.ReadTimeout(LATE) from None


def send(client: httpx.Client, arguments: dict[str, Any]) -> httpx.Response:
    """Does the same without asyncio. Its last read may end later, by the timeout of one read."""
    end = time.monotonic() + arguments["timeout"]
    with client.stream(**arguments) as response:
        return read_until(response, end)


def read_until(response: httpx.Response, end: float) -> httpx.Response:
    """Reads the body of a response, until a time of the monotonic clock."""
    pieces = []
    for piece in response.iter_bytes():
        if time.monotonic() > end:
            raise httpx.ReadTimeout(LATE)
        pieces.append(piece)
    # The pieces are decoded.
    headers = httpx.Headers(response.headers)
    headers.pop("Content-Encoding", None)
    return httpx.Response(response.status_code, headers=headers, content=b"".join(pieces), request=response.request)

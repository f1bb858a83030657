"""Bounds a whole try: a timeout of httpx bounds one read, so it never ends a response that drips."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
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
    """Does the same on a thread of its own, since nothing else leaves a read that goes on.

    The thread ends with the next bytes of a late response.
    """
    is_over = threading.Event()
    outcome: concurrent.futures.Future[httpx.Response] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(read(client, arguments, is_over))
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    try:
        return outcome.result(arguments["timeout"])
    except concurrent.futures.TimeoutError:
        raise httpx.ReadTimeout(LATE) from None
    finally:
        is_over.set()


def read(client: httpx.Client, arguments: dict[str, Any], is_over: threading.Event) -> httpx.Response:
    """Sends a request and reads its response, until nobody waits for it."""
    pieces = []
    with client.stream(**arguments) as response:
        for piece in response.iter_bytes():
            if is_over.is_set():
                raise httpx.ReadTimeout(LATE)
            pieces.append(piece)
    # The pieces are decoded.
    headers = httpx.Headers(response.headers)
    headers.pop("Content-Encoding", None)
    return httpx.Response(response.status_code, headers=headers, content=b"".join(pieces), request=response.request)

"""What the tests share: clients whose service is a function, and that do not sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx

from trade_thesis import AsyncClient, Client

BASE = "https://theses.example"
KEY = "svc_test_key"
Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler, **options: Any) -> tuple[Client, list[float]]:
    """A client of a service that the handler is, and the pauses that it makes."""
    made = Client(BASE, KEY, http_client=httpx.Client(transport=httpx.MockTransport(handler)), **options)
    pauses: list[float] = []
    made._sleep = pauses.append
    return made, pauses


def async_client(handler: Handler, **options: Any) -> tuple[AsyncClient, list[float]]:
    """The same with asyncio."""
    transport = httpx.MockTransport(handler)
    made = AsyncClient(BASE, KEY, http_client=httpx.AsyncClient(transport=transport), **options)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    made._sleep = sleep
    return made, pauses


def refusal(status: int, code: str, kind: str, **headers: str) -> httpx.Response:
    """A response with an error."""
    error = {"type": kind, "code": code, "message": "so it is", "request_id": "req_1", "param": "token"}
    return httpx.Response(status, json={"error": error}, headers={n.replace("_", "-"): v for n, v in headers.items()})


class Script:
    """A handler that answers with one response after the other, and keeps the requests."""

    def __init__(self, *responses: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._responses: Iterator[httpx.Response | Exception] = iter(responses)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = next(self._responses)
        if isinstance(response, Exception):
            raise response
        return response

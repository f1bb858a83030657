"""Sends the requests of a client with asyncio."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar

import httpx

from ._async_stream import AsyncEventStream
from ._call import MAX_RETRIES, TIMEOUT, Call, Options
from ._deadline import send_async
from ._errors import TradeThesisError
from ._messages import Progress
from ._models import Event, StreamGap, read_event
from ._policy import BROKEN, Requests, failure, pause_before, refusal, result
from ._rows import Pages, gap_call

T = TypeVar("T")
Self = TypeVar("Self", bound="AsyncBase")


class AsyncBase:
    """What all operations share."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        timeout: float = TIMEOUT,
        max_retries: int = MAX_RETRIES,
        user_agent: str | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        """Makes a client. It opens no connection before the first request.

        Args:
            base_url: The address of the service, such as `https://theses.example`.
            api_key: A key, `svc_test_…` or `svc_live_…`. None suffices for what everybody may read, such as the keys of
                the log.
            timeout: Seconds for each try, to the last byte of its response; of a file, for each read.
            max_retries: Tries after the first one.
            user_agent: The name of your program, such as `bot/1.2`. The header `User-Agent` has it after that of this
                package.
            http_client: Sends the requests, for example through a proxy. The caller closes it.
        """
        self._requests = Requests(base_url, api_key, timeout, user_agent)
        self._max_retries = max_retries
        self._http = http_client or httpx.AsyncClient()
        self._owns_http = http_client is None
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def missed_events(self, gap: StreamGap, *, options: Options | None = None) -> AsyncIterator[Event]:
        """Iterates over the events of a gap, the newest first.

        A few events of its first and last millisecond may have come before: know them by their ids.
        """
        return self._rows(gap_call(gap), read_event, options)

    async def _call(self, call: Call[T], options: Options | None) -> T:
        given = options or Options()
        max_retries = self._max_retries if given.max_retries is None else given.max_retries
        for retry in itertools.count(1):
            error: TradeThesisError
            try:
                arguments = self._requests.arguments(call, given.timeout)
                response = await (
                    self._http.request(**arguments) if call.is_file else send_async(self._http, arguments)
                )
            except BROKEN as broken:
                error = failure(broken)
                error.__cause__ = broken
            else:
                if response.is_success:
                    return result(call, response)
                error = refusal(response)
            pause = pause_before(retry, error) if call.repeatable and retry <= max_retries else None
            if pause is None:
                raise error
            await self._sleep(pause)
        raise AssertionError("the loop has no end")

    async def _rows(self, call: Call[Any], read_row: Callable[[Any], T], options: Options | None) -> AsyncIterator[T]:
        pages = Pages(call)
        while (page_call := pages.next()) is not None:
            for row in pages.rows(await self._call(page_call, options)):
                yield read_row(row)

    def _stream(self, call: Call[Any], cursor: str | None) -> AsyncEventStream:
        def opening(position: str | None) -> AbstractAsyncContextManager[httpx.Response]:
            return self._http.stream(**self._requests.stream_arguments(call, position))

        progress = Progress(cursor, self._max_retries)
        return AsyncEventStream(opening, progress, self._requests.timeout, self._sleep)

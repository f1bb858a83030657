"""A stream of events for programs with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TypeAlias

import httpx

from ._deadline import LATE
from ._errors import TradeThesisError
from ._messages import Position, Progress, StreamMessage
from ._policy import BROKEN, allow_silence, failure, refusal

Open: TypeAlias = Callable[[str | None], AbstractAsyncContextManager[httpx.Response]]
"""Sends the request of a stream that continues after a cursor."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class AsyncEventStream:
    """Iterates over the messages of a stream, over any break. Close it, or use it with `async with`."""

    def __init__(self, opening: Open, progress: Progress, timeout: float, sleep: Sleep) -> None:
        self._progress = progress
        self._messages = follow(opening, progress, timeout, sleep)

    @property
    def cursor(self) -> str | None:
        """The position after the last message that was taken, or a later one before the next message."""
        return self._progress.cursor

    def __aiter__(self) -> AsyncIterator[StreamMessage]:
        return self._messages

    async def __anext__(self) -> StreamMessage:
        return await anext(self._messages)

    async def close(self) -> None:
        """Closes the connection."""
        await self._messages.aclose()

    async def __aenter__(self) -> AsyncEventStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def follow(
    opening: Open, progress: Progress, timeout: float, sleep: Sleep
) -> AsyncGenerator[StreamMessage, None]:
    """The messages of all connections. Each must open within the timeout."""
    while True:
        try:
            async with AsyncExitStack() as connection:
                response = await connect(connection, opening, progress, timeout)
                if response is None:
                    return
                async for piece in response.aiter_raw():
                    for step in progress.steps(piece):
                        if not isinstance(step, Position):
                            yield step
                        elif step.is_end:
                            return
            pause = progress.pause_after_break()
        except BROKEN:
            pause = progress.pause_after_break()
        except TradeThesisError as error:
            again = progress.pause_after(error)
            if again is None:
                raise
            pause = again
        await sleep(pause)


async def connect(
    connection: AsyncExitStack, opening: Open, progress: Progress, timeout: float
) -> httpx.Response | None:
    """Opens a connection. None tells that a replay is at its end."""

    async def enter() -> httpx.Response:
        response = await connection.enter_async_context(opening(progress.cursor))
        if not response.is_success:
            await response.aread()
            raise refusal(response)
        return response

    try:
        response = await asyncio.wait_for(enter(), timeout)
    except asyncio.TimeoutError:
        raise failure(httpx.ReadTimeout(LATE)) from None
    except BROKEN as error:
        raise failure(error) from error
    progress.opened()
    allow_silence(response)
    return None if response.status_code == httpx.codes.NO_CONTENT else response

"""A stream of events."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TypeAlias

import httpx

from ._deadline import read_until
from ._errors import TradeThesisError
from ._messages import Position, Progress, StreamMessage
from ._policy import BROKEN, allow_silence, failure, refusal

Open: TypeAlias = Callable[[str | None], AbstractContextManager[httpx.Response]]
"""Sends the request of a stream that continues after a cursor."""


class EventStream:
    """Iterates over the messages of a stream, over any break. Close it, or use it with `with`."""

    def __init__(self, opening: Open, progress: Progress, timeout: float, sleep: Callable[[float], None]) -> None:
        self._progress = progress
        self._messages = follow(opening, progress, timeout, sleep)

    @property
    def cursor(self) -> str | None:
        """The position after the last message that was taken, or a later one before the next message."""
        return self._progress.cursor

    def __iter__(self) -> Iterator[StreamMessage]:
        return self._messages

    def __next__(self) -> StreamMessage:
        return next(self._messages)

    def close(self) -> None:
        """Closes the connection."""
        self._messages.close()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def follow(
    opening: Open, progress: Progress, timeout: float, sleep: Callable[[float], None]
) -> Generator[StreamMessage, None, None]:
    """The messages of all connections. Each must open within the timeout."""
    while True:
        try:
            with ExitStack() as connection:
                response = connect(connection, opening, progress, timeout)
                if response is None:
                    return
                for piece in response.iter_raw():
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
        sleep(pause)


def connect(connection: ExitStack, opening: Open, progress: Progress, timeout: float) -> httpx.Response | None:
    """Opens a connection. None tells that a replay is at its end."""
    end = time.monotonic() + timeout
    try:
        response = connection.enter_context(opening(progress.cursor))
        if not response.is_success:
            raise refusal(read_until(response, end))
    except BROKEN as error:
        raise failure(error) from error
    progress.opened()
    allow_silence(response)
    return None if response.status_code == httpx.codes.NO_CONTENT else response

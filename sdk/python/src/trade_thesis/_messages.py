"""The messages of a stream, and the state that survives its breaks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TypeAlias

from ._errors import ApiError, TradeThesisError, UnexpectedResponseError
from ._models import Event, StreamGap, read_event
from ._policy import growing_pause, helps_again, pause_before
from ._sse import Frame, Parser


@dataclasses.dataclass(frozen=True, slots=True)
class EventMessage:
    """An event. Store the cursor once you have handled it."""

    event: Event
    cursor: str


@dataclasses.dataclass(frozen=True, slots=True)
class GapMessage:
    """Events that the service did not replay. `missed_events` of the client reads them."""

    gap: StreamGap
    cursor: str


StreamMessage: TypeAlias = EventMessage | GapMessage


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """A cursor without an event, so that a quiet stream can be resumed too. A replay ends with one."""

    cursor: str
    is_end: bool


class Progress:
    """How far a stream is. It opens after `cursor`, and knows when and whether to open again."""

    def __init__(self, cursor: str | None, max_retries: int) -> None:
        self.cursor = cursor
        self._max_retries = max_retries
        self._was_open = False
        self._failures = 0
        self._server_pause: float | None = None
        self._parser = Parser()

    def opened(self) -> None:
        """A connection is open. What the last one left unfinished is forgotten."""
        self._was_open = True
        self._parser = Parser()

    def steps(self, piece: bytes) -> Iterator[StreamMessage | Position]:
        """What some bytes of the response bring. The cursor moves with each step that is taken."""
        frames = self._parser.feed(piece)
        if self._parser.retry is not None:
            self._server_pause = self._parser.retry / 1000
        for frame in frames:
            # The service is there: the next break is a new one.
            self._failures = 0
            step = read_step(frame)
            self.cursor = step.cursor
            yield step

    def pause_after_break(self) -> float:
        """Seconds to wait after a connection ended or broke."""
        self._failures += 1
        if self._failures == 1 and self._server_pause is not None:
            return self._server_pause
        return growing_pause(self._failures)

    def pause_after(self, error: TradeThesisError) -> float | None:
        """Seconds to wait after the stream could not be opened; none to give up."""
        self._failures += 1
        if not self._was_open:
            return pause_before(self._failures, error) if self._failures <= self._max_retries else None
        if not helps_again(error):
            return None
        retry_after = error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
        return retry_after + growing_pause(self._failures)


def read_step(frame: Frame) -> StreamMessage | Position:
    """What a frame brings."""
    try:
        content = json.loads(frame.data)
        if frame.event == "stream.gap":
            return GapMessage(StreamGap.read(content), frame.id)
        if not frame.event.startswith("stream."):
            return EventMessage(read_event(content), frame.id)
    except (KeyError, TypeError, ValueError) as error:
        raise UnexpectedResponseError(f"the frame {frame.event} of the stream: {error}") from error
    return Position(frame.id, frame.event == "stream.end")

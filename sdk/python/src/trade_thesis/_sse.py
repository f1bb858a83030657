"""Reads Server-Sent Events."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stream."""

    event: str
    data: str
    id: str
    """The id of this frame, or of the last one that had one."""


class Parser:
    """Makes frames of the bytes of a stream, in whatever pieces they come."""

    def __init__(self) -> None:
        self.retry: int | None = None
        """Milliseconds to wait before the stream is opened again, if a line named them."""
        self._line = bytearray()
        self._ends_with_return = False
        self._id = ""
        self._clear()

    def _clear(self) -> None:
        self._event = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Frame]:
        """The frames that end in this piece."""
        # A return and a newline are one end of a line, even if they come in two pieces.
        if self._ends_with_return and piece.startswith(b"\n"):
            piece = piece[1:]
            self._ends_with_return = False
        if piece:
            self._ends_with_return = piece.endswith(b"\r")
        self._line += piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        return [frame for frame in map(self._take, lines) if frame is not None]

    def _take(self, line: bytes) -> Frame | None:
        if not line:
            return self._end()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value)
        return None

    def _end(self) -> Frame | None:
        frame = Frame(self._event or "message", "\n".join(self._data), self._id) if self._data else None
        self._clear()
        return frame

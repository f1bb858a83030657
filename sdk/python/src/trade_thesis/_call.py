"""One request, and how its response is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import httpx

T = TypeVar("T")
TIMEOUT = 15.0
MAX_RETRIES = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one call does otherwise than its client. None leaves it as the client does it."""

    timeout: float | None = None
    """Seconds for each try, to the last byte of its response; of a file, for each read."""
    max_retries: int | None = None
    """Tries after the first one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request of an operation."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    query: Sequence[tuple[str, Any, str]] = ()
    body: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    repeatable: bool = True

    @property
    def is_file(self) -> bool:
        """Whether the response may be too large for the timeout of a try."""
        return self.read is read_bytes


def json_reader(read: Callable[[Any], T]) -> Callable[[httpx.Response], T]:
    """Reads a response in JSON."""
    return lambda response: read(response.json())


def read_any(response: httpx.Response) -> Any:
    """Reads a response in JSON as it is."""
    return response.json()


def read_text(response: httpx.Response) -> str:
    """Reads a text."""
    return response.text


def read_bytes(response: httpx.Response) -> bytes:
    """Reads bytes."""
    return response.content

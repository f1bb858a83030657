"""Leads from one page of a list to the next."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Sequence
from typing import Any

from ._call import Call, read_any
from ._errors import UnexpectedResponseError
from ._models import StreamGap

MAX_PAGE_SIZE = 100
"""Rows of a page when a list is read as a whole, unless the caller gives a limit."""


class Pages:
    """The pages of a list."""

    def __init__(self, call: Call[Any]) -> None:
        query = list(call.query)
        if all(value is None for name, value, _ in query if name == "limit"):
            query.append(("limit", MAX_PAGE_SIZE, "plain"))
        self._call = dataclasses.replace(call, query=query)
        self._next: Call[Any] | None = self._call

    def next(self) -> Call[Any] | None:
        """The request of the next page; none after the last one."""
        return self._next

    def rows(self, page: Any) -> Sequence[Any]:
        """The rows of a page, which says whether and how the list goes on."""
        try:
            rows, cursor = page["data"], page["next_cursor"] if page["has_more"] else None
        except (KeyError, TypeError) as error:
            raise UnexpectedResponseError(f"{self._call.method} {self._call.path}: no page of a list") from error
        self._next = None
        if cursor is not None:
            query = (*self._call.query, ("cursor", cursor, "plain"))
            self._next = dataclasses.replace(self._call, query=query)
        return rows if isinstance(rows, list) else []


def gap_call(gap: StreamGap) -> Call[Any]:
    """The request of the list of a gap."""
    path, _, query = gap.path.partition("?")
    # What follows the address of the service could make it another one, which would get the key.
    if path != "/v1/events":
        raise ValueError(f"{gap.path!r} is not the path of a gap")
    return Call("GET", path, read_any, query=[(name, value, "plain") for name, value in urllib.parse.parse_qsl(query)])

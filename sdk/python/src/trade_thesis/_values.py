"""Values of requests and responses: times, lists in queries, parts of paths, and what was not given."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

OneOrMore: TypeAlias = T | Sequence[T]
"""One value, or several of which any one may match."""


class NotGiven(enum.Enum):
    """Tells an argument that was left out from None, which clears a field."""

    NOT_GIVEN = enum.auto()


NOT_GIVEN: Final = NotGiven.NOT_GIVEN


def read_time(text: str) -> datetime.datetime:
    """Reads a time of a response, which is in UTC."""
    # Before version 3.11 Python does not read the Z.
    return datetime.datetime.fromisoformat(text.removesuffix("Z") + "+00:00" if text.endswith("Z") else text)


def new_key() -> str:
    """A new idempotency key."""
    return str(uuid.uuid4())


def path_part(value: str) -> str:
    """One part of a path: a slash in it is encoded too."""
    return urllib.parse.quote(value, safe="@:$")


def path_parts(value: str) -> str:
    """Several parts of a path with slashes between them."""
    return urllib.parse.quote(value, safe="/")


def to_json(value: Any) -> Any:
    """A value of a request's body as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (field.name for field in dataclasses.fields(value) if field.name != "raw")
        return to_json({name.rstrip("_"): getattr(value, name) for name in fields if getattr(value, name) is not None})
    if isinstance(value, Mapping):
        return {name: to_json(one) for name, one in value.items()}
    if isinstance(value, datetime.date):
        return to_text(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(one) for one in value]
    return value


def given(value: T | None) -> T | NotGiven:
    """The value of a field that None leaves out."""
    return NOT_GIVEN if value is None else value


def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request: the fields that were given."""
    return {name: to_json(value) for name, value in fields.items() if value is not NOT_GIVEN}


def query_of(fields: Sequence[tuple[str, Any, str]]) -> Iterator[tuple[str, str]]:
    """The parameters of a query: each with its name, its value and the style in which a list is written."""
    for name, value, style in fields:
        if value is None:
            continue
        values = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
        texts = [to_text(one) for one in values]
        if style == "comma":
            yield name, ",".join(texts)
        else:
            yield from ((name, text) for text in texts)


def to_text(value: Any) -> str:
    """A single value as a text. A time without a zone is in UTC."""
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return zoned.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)

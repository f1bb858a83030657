"""JSON whose bytes are the same for everybody (RFC 8785), of whole numbers alone."""

from __future__ import annotations

import json
from typing import Any

LARGEST = 2**53 - 1


class NotCanonicalError(ValueError):
    """A value has no canonical form that every reader agrees on."""


class TwoFieldsError(ValueError):
    """An object has two fields of one name, of which some readers keep the first one and some the last one."""


def parse(text: str) -> Any:
    """Reads JSON. A number that is not written as a whole one stays a fraction, so that no check takes it for one."""
    return json.loads(
        text, parse_int=_whole, parse_float=_fraction, parse_constant=_fraction, object_pairs_hook=_object
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise TwoFieldsError(f"an object has two fields {name!r}")
        fields[name] = value
    return fields


def _whole(text: str) -> int | float:
    # A longer number is too large anyway, and takes long to read.
    if len(text) > 17 or str(int(text)) != text:
        return _fraction(text)
    return int(text)


def _fraction(_text: str) -> float:
    return 0.5


def canonical(value: Any) -> str:
    """The canonical form of a value."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(one) for one in value) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not isinstance(value, int) or abs(value) > LARGEST:
            raise NotCanonicalError(f"the number {value} is not written as a whole one, or is beyond 2^53 - 1")
        return str(value)
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    raise NotCanonicalError(f"{type(value).__name__} is no JSON")

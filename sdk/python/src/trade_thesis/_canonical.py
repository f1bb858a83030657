"""JSON whose bytes are the same for everybody (RFC 8785), of whole numbers alone."""

from __future__ import annotations

import json
import math
from typing import Any

LARGEST = 2**53 - 1
# A receipt has few levels. The command has the same limit.
MAX_DEPTH = 127
# A parser of Rust reads the text in a field of this name as JSON, and no other parser does.
RAW_VALUE = "$serde_json::private::RawValue"


class NotCanonicalError(ValueError):
    """A value has no canonical form that every reader agrees on."""


class AmbiguousError(ValueError):
    """Readers of JSON understand a text differently: some keep the first of two fields of one name, some the last."""


def parse(text: str) -> Any:
    """Reads JSON. A number that is not written as a whole one stays a fraction, so that no check takes it for one."""
    value = json.loads(
        text, parse_int=_whole, parse_float=_fraction, parse_constant=_constant, object_pairs_hook=_object
    )
    _check(value)
    return value


def _check(value: Any, depth: int = 0) -> None:
    """Refuses what other readers of JSON refuse: more levels than `MAX_DEPTH`, and half of a surrogate pair."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, (dict, list)):
        if depth == MAX_DEPTH:
            raise ValueError(f"it has more than {MAX_DEPTH} levels")
        for one in [*value, *value.values()] if isinstance(value, dict) else value:
            _check(one, depth + 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise AmbiguousError(f"an object has two fields {name!r}")
        if name == RAW_VALUE:
            raise AmbiguousError(f"an object has the field {name!r}")
        fields[name] = value
    return fields


def _whole(text: str) -> int | float:
    # A longer number is too large anyway, and takes long to read.
    if len(text) > 17 or str(int(text)) != text:
        return _fraction(text)
    return int(text)


def _fraction(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError("a number is too large")
    return 0.5


def _constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


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

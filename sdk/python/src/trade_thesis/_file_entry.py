"""Reads the stored entry of an archive file, which a receipt of the file has: a message of protobuf."""

from __future__ import annotations

from ._receipt_error import ReceiptError, demand

FILE_FIELD = 17
# The last millisecond of the year 9999.
MAX_TIME_MS = 253_402_300_799_999

# The fields of a message: numbers, bytes, and none for a number of a fixed size, which no field of an entry is.
_Fields = list[tuple[int, "int | bytes | None"]]


def named_file(stored: bytes) -> tuple[str, str, str]:
    """Date, kind and SHA-256 of the file."""
    try:
        entry = _fields(stored)
        file = _fields(_bytes(entry, FILE_FIELD))
        is_in_time = _number(entry, 2) <= MAX_TIME_MS
        for number in (3, 4, 5):
            _number(file, number)
        date, kind, sha256 = (_bytes(file, number, b"").decode() for number in (1, 2, 6))
    except (LookupError, TypeError, ValueError) as error:
        raise ReceiptError("entry", "the entry is not that of an archive file") from error
    demand(is_in_time, "entry", "the time of the entry is after the year 9999")
    return date, kind, sha256


def _only(fields: _Fields, number: int, default: int | bytes | None) -> int | bytes | None:
    """The value of a field. Libraries differ in what they do with several ones, so they are an error."""
    values = [value for field, value in fields if field == number] or [default]
    if len(values) > 1:
        raise ValueError
    return values[0]


def _number(fields: _Fields, number: int) -> int:
    value = _only(fields, number, 0)
    if not isinstance(value, int):
        raise TypeError
    return value


def _bytes(fields: _Fields, number: int, default: bytes | None = None) -> bytes:
    value = _only(fields, number, default)
    if not isinstance(value, bytes):
        raise TypeError
    return value


def _fields(message: bytes) -> _Fields:
    fields: _Fields = []
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        field, kind = divmod(tag, 8)
        if kind not in (0, 1, 2, 5) or not 1 <= field < 1 << 29:
            raise ValueError
        if kind == 0:
            number, at = _varint(message, at)
            fields.append((field, number))
            continue
        length, at = _varint(message, at) if kind == 2 else (4 if kind == 5 else 8, at)
        if length > len(message) - at:
            raise ValueError
        fields.append((field, message[at : at + length] if kind == 2 else None))
        at += length
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128 and number < 1 << 64:
            return number, at
    raise ValueError

"""Reads the stored entry of an archive file, which a receipt of the file has: a message of protobuf."""

from __future__ import annotations

from ._receipt_error import ReceiptError

FILE_FIELD = 17


def named_file(stored: bytes) -> tuple[str, str, str]:
    """Date, kind and SHA-256 of the file."""
    try:
        file = _fields(_bytes(_fields(stored)[FILE_FIELD]))
        date, kind, sha256 = (_bytes(file.get(number, b"")).decode() for number in (1, 2, 6))
    except (LookupError, TypeError, ValueError) as error:
        raise ReceiptError("entry", "the entry is not that of an archive file") from error
    return date, kind, sha256


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError
    return value


def _fields(message: bytes) -> dict[int, int | bytes]:
    """The fields of a message: numbers, and the bytes of everything else."""
    fields: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        field, kind = divmod(tag, 8)
        if kind == 0:
            fields[field], at = _varint(message, at)
            continue
        if kind not in (1, 2, 5):
            raise ValueError
        length, at = _varint(message, at) if kind == 2 else (4 if kind == 5 else 8, at)
        if length > len(message) - at:
            raise ValueError
        fields[field] = message[at : at + length]
        at += length
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise ValueError

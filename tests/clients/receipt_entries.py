"""Test vectors with the entry of an archive file in other forms. The log has each of them."""

from receipt_formats import FILE_FIELD, protobuf, sha256
from receipt_log import FILE, SANDBOX_KEY, Log, entry_fields, file_entry

# The first millisecond of the year 10000.
LATE = 253_402_300_800_000


def receipt_of(stored):
    """The receipt of an entry."""
    log = Log(SANDBOX_KEY, 1)
    log.put(0, sha256(stored))
    return log.prove(0, {name: FILE[name] for name in ("date", "kind", "sha256")} | entry_fields(stored))


def with_file(time=1_795_478_705_123, **changes):
    """An entry about the file, with another time or other fields."""
    return protobuf({2: time, FILE_FIELD: protobuf(dict(enumerate((FILE | changes).values(), 1)))})


def odd_entries():
    """Valid receipts."""
    # Numbers in a longer form, repeated, of a fixed size, and a text: no reader knows these fields.
    unknown = b"\x90\x01\x87\x00\x90\x01\x07\x99\x01" + bytes(8) + b"\xa5\x01" + bytes(4) + b"\xaa\x01\x01a"
    largest = b"\x90\x01" + b"\xff" * 9 + b"\x01"
    yield "archive-file-with-more-fields", receipt_of(file_entry(1, FILE) + unknown + largest), {}
    yield "archive-file-without-numbers", receipt_of(with_file(position=0, rows=0, bytes=0)), {}
    empty = receipt_of(protobuf({2: 7, FILE_FIELD: b""}))
    yield "archive-file-empty", empty | {"date": "", "kind": "", "sha256": ""}, {}


def wrong_entries():
    """Receipts of entries that libraries of protobuf read differently."""
    entry = file_entry(1, FILE)
    for name, stored in {
        "two-files": entry + protobuf({FILE_FIELD: b""}),
        "two-times": entry + protobuf({2: 7}),
        "group": entry + b"\x93\x01\x94\x01",
        "field-0": entry + b"\x02\x00",
        "field-2-to-29": entry + b"\x80\x80\x80\x80\x10\x00",
        "large-number": entry + b"\x90\x01" + b"\xff" * 9 + b"\x02",
        "long-number": entry + b"\x90\x01" + b"\xff" * 10 + b"\x01",
        "date-number": with_file(date=20261123),
        "date-of-fixed-size": protobuf({2: 7, FILE_FIELD: b"\x09" + b"20261123" + protobuf({2: "theses"})}),
        "position-text": with_file(position="180"),
        "time-text": with_file("now"),
        "file-number": protobuf({2: 7, FILE_FIELD: 7}),
        "kind-without-utf-8": with_file(kind=b"\xff"),
        "in-10000": with_file(LATE),
        "before-1970": with_file((1 << 64) - 1),
    }.items():
        yield f"file-entry-{name}", receipt_of(stored), {}, "entry"
    # Date and kind together are the same text in entry and receipt.
    receipt = receipt_of(with_file(date="23 of 24", kind="theses"))
    yield "file-date-and-kind", receipt | {"date": "24", "kind": "theses of 23"}, {}, "file"
    receipt = receipt_of(with_file(date="a b", kind="c"))
    yield "file-date-and-kind-with-spaces", receipt | {"date": "a", "kind": "b c"}, {}, "file"

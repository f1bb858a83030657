"""Checks receipts and statements offline.

A receipt proves that the service recorded a thesis, or an archive file. Get the keys of the service once from
`Client.list_log_keys`, store them, and give them as `trusted`: anybody can make a log and a key.

    verified = receipts.verify(text, trusted=keys)

Needs the package `cryptography`, which `pip install 'trade-thesis[ed25519]'` brings.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _notes
from ._canonical import LARGEST, AmbiguousError, NotCanonicalError, canonical, parse
from ._file_entry import named_file
from ._models import ArchiveReceipt, Receipt, Statement
from ._notes import (
    Checkpoint,
    Key,
    decode,
    read_checkpoint,
    read_key,
    read_note,
    read_proof,
    root_from,
    sha256,
    signed_at,
)
from ._receipt_error import Reason, ReceiptError, demand

MAX_BYTES = 1 << 20
SALT_BYTES = 16
_MISSING = object()
TYPES = ("thesis.created", "thesis.edited", "thesis.deleted")

__all__ = ["Reason", "ReceiptError", "Verified", "Witness", "verify"]

_OF_RECEIPT = {"salt": str, "index": int, "proof": str, "keys": list, "livemode": bool}
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "thesis": {"thesis_id": str, "evidence": object, **_OF_RECEIPT},
    "file": {"date": str, "kind": str, "sha256": str, "evidence": str, "entry": str, **_OF_RECEIPT},
    "statement": {
        "claim": object,
        "verdict": object,
        "checkpoint": str,
        "signature": str,
        "keys": list,
        "livemode": bool,
    },
}
_EVIDENCE: Mapping[str, Any] = {
    "type": str,
    "dataset": str,
    "sequence": int,
    "thesis_id": str,
    "profile": {"id": str, "handle": str},
    "token": {"id": str, "chain": str, "address": str, "symbol": str},
    "created_at": str,
    "recorded_at": str,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """A third party that cosigned the checkpoint."""

    name: str
    at: datetime.datetime
    """When it did: it had seen the log by then."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """What a valid document proves."""

    kind: Literal["thesis", "file", "statement"]
    document: Mapping[str, Any]
    """The document. Of a receipt `evidence` is proven, or the hash of the file; of a statement claim and verdict."""
    origin: str
    """The log."""
    dataset: str
    """`live` or `sandbox`; the latter is test data."""
    size: int
    """The number of entries that the checkpoint covers."""
    keys: tuple[str, ...]
    """The keys that signed."""
    is_trusted: bool
    """Whether a trusted key signed. If not, all this holds only if the key in the document is that of the service."""
    witnesses: tuple[Witness, ...]


def verify(
    document: str | bytes | Mapping[str, Any] | Receipt | ArchiveReceipt | Statement,
    *,
    trusted: Sequence[str] = (),
    witnesses: Sequence[str] = (),
) -> Verified:
    """Checks a document without any network.

    Args:
        document: The text of the file, or what the API gave. The text also tells how numbers are written.
        trusted: Keys of the service that you trust. One must have signed; without any, `is_trusted` is false.
        witnesses: Keys of witnesses, all of which must have cosigned.

    Raises:
        ReceiptError: The document proves nothing; `reason` says why. It is also raised for a key that is malformed.
    """
    raw, kind = _read(document)
    try:
        return _verify(raw, kind, trusted, witnesses)
    except NotCanonicalError as error:
        raise ReceiptError("number", str(error)) from error
    except UnicodeEncodeError as error:
        raise ReceiptError("unreadable", "the document has an incomplete character") from error


def _read(document: Any) -> tuple[Mapping[str, Any], Literal["thesis", "file", "statement"]]:
    """The fields of a document that is whole, and its kind."""
    raw = document.raw if isinstance(document, (Receipt, ArchiveReceipt, Statement)) else document
    if isinstance(raw, (str, bytes)):
        size = len(raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw)
        demand(size <= MAX_BYTES, "unreadable", "the document is larger than 1 MiB")
        try:
            raw = parse(raw.decode() if isinstance(raw, bytes) else raw)
        except AmbiguousError as error:
            raise ReceiptError("unreadable", f"the document can be read in two ways: {error}") from error
        except (ValueError, RecursionError) as error:
            raise ReceiptError("unreadable", f"the document is not JSON, or it is cut off: {error}") from error
    kind = None
    if isinstance(raw, Mapping):
        kinds = {"receipt": "file" if "entry" in raw else "thesis", "statement": "statement"}
        kind = kinds.get(str(raw.get("object")))
    if kind is None:
        raise ReceiptError("unreadable", "the document is neither a receipt nor a statement")
    wrong = _wrong_field(raw, _FIELDS[kind])
    demand(wrong is None, "unreadable", f"the field {wrong} of the document is missing or wrong")
    demand(all(isinstance(key, str) for key in raw["keys"]), "unreadable", "a key of the document is no text")
    return raw, kind  # type: ignore[return-value]  # a value of `kinds`


def _wrong_field(value: Any, fields: Mapping[str, Any], path: str = "") -> str | None:
    """The path of the first field that is missing or of another type."""
    if not isinstance(value, Mapping):
        return path.removesuffix(".") or "evidence"
    for name, kind in fields.items():
        if isinstance(kind, Mapping):
            wrong = _wrong_field(value.get(name), kind, f"{path}{name}.")
            if wrong is not None:
                return wrong
        elif not _is(value.get(name, _MISSING), kind):
            return path + name
    return None


def _is(value: Any, kind: type) -> bool:
    """Whether a field has a type. Numbers count something, and true is no number."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
    return value is not _MISSING and isinstance(value, kind)


def _verify(
    raw: Mapping[str, Any],
    kind: Literal["thesis", "file", "statement"],
    trusted: Sequence[str],
    witnesses: Sequence[str],
) -> Verified:
    """Checks the parts in the order of the command `trade-thesis receipt verify`, so that both name the same fault."""
    for key in (*trusted, *witnesses):
        read_key(key)
    leaf, index, path = b"", 0, list[bytes]()
    if kind == "statement":
        checkpoint = read_checkpoint(raw["checkpoint"])
        dataset = _dataset(checkpoint)
    else:
        leaf = _leaf(raw, _file_evidence(raw) if kind == "file" else _thesis_evidence(raw))
        index, path, checkpoint = read_proof(raw["proof"])
        dataset = _dataset(checkpoint)
        _check_parts(raw, kind, index, dataset)
    demand(raw["livemode"] is (dataset == "live"), "livemode", f"livemode is another one than that of {dataset} data")
    keys = _listed_keys(raw, checkpoint)
    is_trusted = any(key in raw["keys"] for key in trusted)
    demand(is_trusted or not trusted, "untrusted", "none of the keys that you trust has signed")
    if kind == "statement":
        _check_statement(raw, checkpoint, keys)
    else:
        demand(index < checkpoint.size, "beyond", "the checkpoint does not reach this entry")
        is_in_tree = root_from(leaf, index, checkpoint.size, path) == checkpoint.root
        do_not_belong = "evidence and salt do not belong to the hashes of the proof, or one of them was changed"
        demand(is_in_tree, "root", do_not_belong)
    seen = tuple(_witness(key, checkpoint) for key in witnesses)
    texts = tuple(key.text for key in keys)
    return Verified(kind, raw, checkpoint.origin, dataset, checkpoint.size, texts, is_trusted, seen)


def _dataset(checkpoint: Checkpoint) -> str:
    parts = checkpoint.origin.split("/")
    is_own = len(parts) == 3 and parts[0] == "trade-thesis" and parts[1] in ("live", "sandbox") and parts[2] != ""
    demand(is_own, "origin", f"the log {checkpoint.origin} is not a log of this service")
    return parts[1]


def _leaf(raw: Mapping[str, Any], content: bytes) -> bytes:
    salt = decode(raw["salt"], "salt", "salt")
    demand(len(salt) == SALT_BYTES, "salt", "the salt does not have 16 bytes")
    return sha256(b"\0", sha256(salt, content))


def _thesis_evidence(raw: Mapping[str, Any]) -> bytes:
    evidence = raw["evidence"]
    content = canonical(evidence).encode()
    wrong = _wrong_field(evidence, _EVIDENCE)
    demand(wrong is None, "evidence", f"the field {wrong} of the evidence is missing or wrong")
    demand(evidence["type"] in TYPES, "evidence", "the evidence is about something that this version does not know")
    is_text = evidence.get("text") is None or isinstance(evidence["text"], str)
    demand(is_text, "evidence", "the text of the evidence is no text")
    return content


def _file_evidence(raw: Mapping[str, Any]) -> bytes:
    stored = decode(raw["entry"], "entry", "entry")
    demand(sha256(stored).hex() == raw["evidence"], "entry", "the evidence is not the SHA-256 of the entry")
    named_file(stored)
    return sha256(stored)


def _check_parts(raw: Mapping[str, Any], kind: str, index: int, dataset: str) -> None:
    """Checks that all parts of a receipt are about one entry."""
    if kind == "file":
        named = named_file(decode(raw["entry"], "entry", "entry"))
        demand(named == (raw["date"], raw["kind"], raw["sha256"]), "file", "the entry is about another archive file")
    else:
        demand(raw["evidence"]["thesis_id"] == raw["thesis_id"], "thesis", "the evidence is about another thesis")
    demand(index == raw["index"], "index", "the index is not that of the proof, which is of another entry")
    if kind == "thesis":
        is_same = raw["evidence"]["sequence"] == index + 1
        demand(is_same, "sequence", "the sequence number of the evidence is not that of the proven entry")
        is_same = raw["evidence"]["dataset"] == dataset
        demand(is_same, "dataset", "the evidence is of another dataset than the log")


def _listed_keys(raw: Mapping[str, Any], checkpoint: Checkpoint) -> list[Key]:
    """The keys that the document lists: each must be one of its log, and have signed the checkpoint."""
    # The number of signature checks grows with the number of keys.
    is_bounded = 0 < len(raw["keys"]) <= _notes.MAX_SIGNATURES
    demand(is_bounded, "keys", f"the document lists no key, or more than {_notes.MAX_SIGNATURES} keys")
    keys = []
    for text in raw["keys"]:
        key = read_key(text)
        is_of_log = key.type == _notes.SIGNATURE and key.name == checkpoint.origin
        demand(is_of_log, "key", f"the key {key.name} is not one of the log of the checkpoint")
        is_signed = signed_at(checkpoint.note, key) is not None
        demand(is_signed, "unsigned", "the checkpoint is not signed by a key that the document lists")
        keys.append(key)
    return keys


def _check_statement(raw: Mapping[str, Any], checkpoint: Checkpoint, keys: list[Key]) -> None:
    tree = "\n".join(checkpoint.note.text.split("\n")[:3])
    text = f"trade-thesis statement v1\n{tree}\n{canonical(raw['claim'])}\n{canonical(raw['verdict'])}\n"
    note = read_note(f"{text}\n{raw['signature']}", "statement")
    demand(note.text == text, "form", "the signature of the statement has another form")
    is_signed = all(signed_at(note, key) is not None for key in keys)
    demand(is_signed, "unsigned", "the statement is not signed by a key that the document lists")


def _witness(text: str, checkpoint: Checkpoint) -> Witness:
    key = read_key(text)
    at = signed_at(checkpoint.note, key)
    if at is None or key.type != _notes.COSIGNATURE:
        raise ReceiptError("witness", f"the witness {key.name} has not cosigned the checkpoint")
    return Witness(key.name, datetime.datetime.fromtimestamp(at, datetime.timezone.utc))

"""The formats of C2SP that a receipt has: signed notes, their keys, checkpoints, cosignatures and proofs."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re

from ._canonical import LARGEST
from ._ed25519 import is_signed
from ._receipt_error import Reason, ReceiptError, demand

PROOF = "c2sp.org/tlog-proof@v1"
SIGNATURE, COSIGNATURE = 1, 4
HASH_BYTES = 32
SIGNATURE_BYTES = 64
MAX_SIGNATURES = 64
# The last second of the year 9999. `datetime` has no later time.
MAX_TIME = 253_402_300_799
KEY = re.compile(r"([^+\s\x00-\x1f\x7f-\x9f]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)")
SIGNATURE_LINE = re.compile(r"— ([^+\s\x00-\x1f\x7f-\x9f]+) ([A-Za-z0-9+/=]+)")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A public key with its name."""

    text: str
    name: str
    id: bytes
    type: int
    public: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A text with its last newline, and its signatures: name, id of the key, bytes."""

    text: str
    signatures: tuple[tuple[str, bytes, bytes], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """Size and root of the tree over a log, signed by the log's key."""

    note: Note
    origin: str
    size: int
    root: bytes


def sha256(*parts: bytes) -> bytes:
    """The hash of some parts."""
    return hashlib.sha256(b"".join(parts)).digest()


def decode(text: str, what: str, reason: Reason = "form") -> bytes:
    """The bytes of a text in base64, which has only one form for each."""
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ReceiptError(reason, f"the {what} is not base64") from error
    demand(base64.b64encode(content).decode() == text, reason, f"the {what} is not base64")
    return content


def whole(text: str, what: str) -> int:
    """A whole number without leading zeros, which every reader keeps."""
    is_whole = re.fullmatch(r"0|[1-9][0-9]{0,15}", text) is not None and int(text) <= LARGEST
    demand(is_whole, "form", f"the {what} is not a number")
    return int(text)


def read_key(text: str) -> Key:
    """Reads a key: name, id, and its type before the public key in base64."""
    parts = KEY.fullmatch(text)
    if parts is None:
        raise ReceiptError("key", "a key has the form name+id+key, as the service lists its keys")
    name, given, encoded = parts.groups()
    content = decode(encoded, "key", "key")
    is_known = len(content) == 1 + HASH_BYTES and content[0] in (SIGNATURE, COSIGNATURE)
    demand(is_known, "key", "a key is not one of Ed25519")
    identity = sha256(name.encode(), b"\n", content)[:4]
    demand(identity.hex() == given, "key", f"the id of the key {name} does not belong to it")
    return Key(text, name, identity, content[0], content[1:])


def read_note(text: str, what: str) -> Note:
    """Reads a signed note."""
    demand(CONTROL.search(text) is None, "form", f"the {what} has control characters")
    end = text.rfind("\n\n")
    demand(end > 0 and text.endswith("\n"), "form", f"the {what} has no signatures")
    lines = text[end + 2 : -1].split("\n")
    demand(len(lines) <= MAX_SIGNATURES, "form", f"the {what} has too many signatures")
    signatures = []
    for line in lines:
        parts = SIGNATURE_LINE.fullmatch(line)
        if parts is None:
            raise ReceiptError("form", f"the {what} has a line that is no signature")
        content = decode(parts[2], "signature")
        demand(len(content) > 4, "form", f"a signature of the {what} is too short")
        signatures.append((parts[1], content[:4], content[4:]))
    return Note(text[: end + 1], tuple(signatures))


def read_checkpoint(text: str) -> Checkpoint:
    """Reads a checkpoint."""
    note = read_note(text, "checkpoint")
    lines = note.text[:-1].split("\n")
    demand(len(lines) >= 3 and all(lines), "form", "the checkpoint lacks its origin, size or root")
    root = decode(lines[2], "root")
    demand(len(root) == HASH_BYTES, "form", "the root is not a hash of SHA-256")
    return Checkpoint(note, lines[0], whole(lines[1], "size of the tree"), root)


def read_proof(text: str) -> tuple[int, list[bytes], Checkpoint]:
    """Reads a proof: the index of the leaf, the hashes to the root, and the checkpoint."""
    head, blank, checkpoint = text.partition("\n\n")
    demand(blank != "", "form", "the proof has no checkpoint")
    version, *lines = head.split("\n")
    demand(version == PROOF, "form", f"the proof does not begin with {PROOF}")
    demand(bool(lines) and lines[0].startswith("index "), "form", "the proof lacks the index of its leaf")
    hashes = [decode(line, "proof") for line in lines[1:]]
    demand(all(len(one) == HASH_BYTES for one in hashes), "form", "the proof has a line that is no hash of SHA-256")
    return whole(lines[0].removeprefix("index "), "index"), hashes, read_checkpoint(checkpoint)


def signed_at(note: Note, key: Key) -> int | None:
    """When a key signed a note: 0 for a signature without a time, none if it did not. A wrong signature is an error."""
    found: int | None = None
    for name, identity, content in note.signatures:
        if (name, identity) != (key.name, key.id):
            continue
        at, message, signature = 0, note.text, content
        if key.type == COSIGNATURE:
            at, signature = int.from_bytes(content[:8], "big"), content[8:]
            message = f"cosignature/v1\ntime {at}\n{note.text}"
        is_whole = len(signature) == SIGNATURE_BYTES and at <= MAX_TIME
        is_valid = is_whole and is_signed(key.public, signature, message.encode())
        demand(is_valid, "signature", f"the signature of {key.name} is wrong, so it or what it signs was changed")
        found = at if found is None else min(found, at)
    return found


def root_from(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """The root that follows from a leaf and its inclusion proof (RFC 9162, section 2.1.3.2)."""
    place, last, root = index, size - 1, leaf
    wrong_length = f"the proof has {len(path)} hashes, and no proof for the entry {index + 1} of {size} has that many"
    for one in path:
        demand(last > 0, "length", wrong_length)
        if place % 2 == 1 or place == last:
            root = sha256(b"\1", one, root)
            while place % 2 == 0 and place != 0:
                place, last = place // 2, last // 2
        else:
            root = sha256(b"\1", root, one)
        place, last = place // 2, last // 2
    demand(last == 0, "length", wrong_length)
    return root

"""Implements the formats of receipts from their specifications and docs/guides/receipts.md alone. It shares no code with
the service.

It needs `cryptography` and `rfc8785`."""

import base64
import hashlib
import json
import re

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PROOF = "c2sp.org/tlog-proof@v1"
STATEMENT = "trade-thesis statement v1"
SIGNATURE, COSIGNATURE = 1, 4
SALT_BYTES = 16
MAX_SIGNATURES = 64
MAX_LEVELS = 127
# The last second of the year 9999.
MAX_TIME = 253_402_300_799
NAME = re.compile(r"[^+\s\x00-\x1f\x7f-\x9f]+")
# A parser of Rust reads the text in a field of this name as JSON, and no other parser does.
RAW_VALUE = "$serde_json::private::RawValue"
# The field of a stored entry that is about an archive file.
FILE_FIELD = 17


class Invalid(Exception):
    """A document proves nothing. The text is the reason."""


def demand(holds, why):
    if not holds:
        raise Invalid(why)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def encode(data):
    return base64.b64encode(data).decode()


def decode(text, what):
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, TypeError) as error:
        raise Invalid(f"{what}: no base64") from error
    demand(encode(data) == text, f"{what}: no canonical base64")
    return data


def number(text, what):
    demand(text.isascii() and text.isdigit() and str(int(text)) == text, f"{what}: no number")
    return int(text)


# --- the tree of RFC 9162, by its definitions ---


def leaf_hash(content):
    return sha256(b"\0", content)


def node_hash(left, right):
    return sha256(b"\1", left, right)


def split(size):
    """The largest power of two below a size."""
    return 1 << ((size - 1).bit_length() - 1)


def root(leaves):
    if not leaves:
        return sha256()
    if len(leaves) == 1:
        return leaves[0]
    middle = split(len(leaves))
    return node_hash(root(leaves[:middle]), root(leaves[middle:]))


def inclusion(index, leaves):
    """The proof of a leaf (section 2.1.3.1)."""
    if len(leaves) <= 1:
        return []
    middle = split(len(leaves))
    if index < middle:
        return inclusion(index, leaves[:middle]) + [root(leaves[middle:])]
    return inclusion(index - middle, leaves[middle:]) + [root(leaves[:middle])]


def consistency(size, leaves, is_whole=True):
    """The proof that the leaves begin with the tree of a smaller size (section 2.1.4.1)."""
    if size == len(leaves):
        return [] if is_whole else [root(leaves)]
    middle = split(len(leaves))
    if size <= middle:
        return consistency(size, leaves[:middle], is_whole) + [root(leaves[middle:])]
    return consistency(size - middle, leaves[middle:], False) + [root(leaves[:middle])]


def root_of_inclusion(index, size, leaf, proof):
    """The root that follows from a proof; none if the proof has another length. It is recursive, unlike the RFC's."""
    if size == 1:
        return leaf if not proof else None
    if not proof:
        return None
    middle, sibling = split(size), proof[-1]
    if index < middle:
        left = root_of_inclusion(index, middle, leaf, proof[:-1])
        return left and node_hash(left, sibling)
    right = root_of_inclusion(index - middle, size - middle, leaf, proof[:-1])
    return right and node_hash(sibling, right)


# --- notes, keys and checkpoints of C2SP ---


class Key:
    """A private key with its name."""

    def __init__(self, name, seed, kind=SIGNATURE):
        self.name, self.kind = name, kind
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self.private.public_key().public_bytes_raw()

    @property
    def id(self):
        return key_id(self.name, self.kind, self.public)

    def __str__(self):
        return f"{self.name}+{self.id.hex()}+{encode(bytes([self.kind]) + self.public)}"

    def line(self, signature):
        return f"— {self.name} {encode(self.id + signature)}\n"

    def sign(self, text, time=None):
        if self.kind == SIGNATURE:
            return self.line(self.private.sign(text.encode()))
        message = f"cosignature/v1\ntime {time}\n{text}"
        return self.line(time.to_bytes(8, "big") + self.private.sign(message.encode()))


def key_id(name, kind, public):
    return sha256(name.encode(), b"\n", bytes([kind]), public)[:4]


def read_key(text):
    """The name, kind, id and public key of a key."""
    parts = text.split("+", 2)
    demand(len(parts) == 3, "key: no form name+id+key")
    name, given, encoded = parts
    data = decode(encoded, "key")
    demand(len(data) == 33 and data[0] in (SIGNATURE, COSIGNATURE), "key: not of Ed25519")
    demand(NAME.fullmatch(name) and key_id(name, data[0], data[1:]).hex() == given, "key: another id")
    return name, data[0], data[1:]


def read_note(note):
    """The text of a note, and its signatures: name, id and bytes."""
    demand(not any(ord(letter) < 32 and letter != "\n" for letter in note), "note: control characters")
    text, blank, rest = note.rpartition("\n\n")
    demand(blank and rest.endswith("\n"), "note: no signatures")
    signatures = []
    for line in rest[:-1].split("\n"):
        parts = line.split(" ")
        demand(len(parts) == 3 and parts[0] == "—" and NAME.fullmatch(parts[1]), "note: no signature line")
        data = decode(parts[2], "signature")
        demand(len(data) > 4, "signature: too short")
        signatures.append((parts[1], data[:4], data[4:]))
    demand(len(signatures) <= MAX_SIGNATURES, "note: too many signatures")
    return text + "\n", signatures


def signed_at(note, key):
    """Whether a key signed a note: true, or the time of a cosignature. A wrong signature makes the note invalid."""
    name, kind, public = read_key(key)
    text, signatures = read_note(note)
    found = None
    for signer, given, data in signatures:
        if (signer, given) != (name, key_id(name, kind, public)):
            continue
        message, time = text, True
        if kind == COSIGNATURE:
            demand(len(data) == 72, "cosignature: another length")
            time, data = int.from_bytes(data[:8], "big"), data[8:]
            demand(time <= MAX_TIME, "cosignature: after the year 9999")
            message = f"cosignature/v1\ntime {time}\n{text}"
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(data, message.encode())
        except InvalidSignature as error:
            raise Invalid(f"a signature of {name} is wrong") from error
        found = time if found is None else min(found, time)
    return found


def read_checkpoint(note):
    """Origin, size and root of a checkpoint."""
    text, _ = read_note(note)
    lines = text[:-1].split("\n")
    demand(len(lines) >= 3 and all(lines), "checkpoint: another form")
    hashed = decode(lines[2], "root")
    demand(len(hashed) == 32, "root: another length")
    return lines[0], number(lines[1], "size"), hashed


# --- receipts and statements ---


def verify(document, trusted=(), witnesses=()):
    """Verifies a receipt or a statement; raises `Invalid`. Gives the times of the witnesses."""
    is_receipt = document["object"] == "receipt"
    checkpoint = read_proof(document["proof"])[2] if is_receipt else document["checkpoint"]
    origin, size, expected = read_checkpoint(checkpoint)
    parts = origin.split("/")
    demand(len(parts) == 3 and parts[0] == "trade-thesis" and parts[2], "origin: another log")
    dataset = parts[1]
    demand(dataset in ("live", "sandbox"), "origin: another dataset")
    demand(document["livemode"] is (dataset == "live"), "livemode: of another dataset")
    demand(0 < len(document["keys"]) <= MAX_SIGNATURES, "keys: none, or too many")
    demand(all(isinstance(key, str) for key in document["keys"]), "keys: no text")
    for key in document["keys"]:
        name, kind, _ = read_key(key)
        demand(kind == SIGNATURE and name == origin, "key: of another log")
        demand(signed_at(checkpoint, key), "checkpoint: not signed")
    demand(not trusted or set(trusted) & set(document["keys"]), "keys: none is trusted")
    if is_receipt:
        verify_leaf(document, dataset, size, expected)
    else:
        verify_statement(document, origin, size, expected)
    times = {key: signed_at(checkpoint, key) for key in witnesses}
    demand(None not in times.values(), "witness: no cosignature")
    return times


def read_proof(text):
    head, blank, checkpoint = text.partition("\n\n")
    lines = head.split("\n")
    demand(blank and lines[0] == PROOF and lines[1:] and lines[1].startswith("index "), "proof: another form")
    hashes = [decode(line, "proof") for line in lines[2:]]
    demand(all(len(hashed) == 32 for hashed in hashes), "proof: another form")
    return number(lines[1].removeprefix("index "), "index"), hashes, checkpoint


def verify_leaf(receipt, dataset, size, expected):
    index, hashes, _ = read_proof(receipt["proof"])
    salt = decode(receipt["salt"], "salt")
    demand(len(salt) == SALT_BYTES, "salt: another length")
    demand(index == receipt["index"], "index: another one")
    demand(index < size, "index: beyond the checkpoint")
    committed = file_evidence(receipt) if "entry" in receipt else thesis_evidence(receipt, dataset, index)
    leaf = leaf_hash(sha256(salt, committed))
    demand(root_of_inclusion(index, size, leaf, hashes) == expected, "proof: leads to another root")


def thesis_evidence(receipt, dataset, index):
    evidence = receipt["evidence"]
    demand(isinstance(evidence, dict), "evidence: no object")
    demand(evidence["thesis_id"] == receipt["thesis_id"], "thesis: another one")
    demand(evidence["sequence"] == index + 1, "sequence: another entry")
    demand(evidence["dataset"] == dataset, "dataset: another one")
    return canonical(evidence)


def file_evidence(receipt):
    """The hash of the stored entry, which must be about the file that the receipt names."""
    stored = decode(receipt["entry"], "entry")
    demand(sha256(stored).hex() == receipt["evidence"], "evidence: not the hash of the entry")
    entry = protobuf_fields(stored, {2: int, FILE_FIELD: bytes})
    demand(FILE_FIELD in entry, "entry: not of a file")
    demand(entry.get(2, 0) < (MAX_TIME + 1) * 1000, "entry: after the year 9999")
    file = protobuf_fields(entry[FILE_FIELD], {1: bytes, 2: bytes, 3: int, 4: int, 5: int, 6: bytes})
    named = [receipt[name].encode() for name in ("date", "kind", "sha256")]
    demand([file.get(number, b"") for number in (1, 2, 6)] == named, "file: another one")
    return sha256(stored)


def varint(number):
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + varint(number >> 7)


def protobuf(fields):
    """A protobuf message of whole numbers, texts and messages."""
    message = b""
    for field, value in fields.items():
        if isinstance(value, int):
            message += varint(field << 3) + varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            message += varint(field << 3 | 2) + varint(len(content)) + content
    return message


def protobuf_fields(message, known):
    """The known fields of a protobuf message: whole numbers, and the bytes of texts and messages."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        number = 0
        for shift in range(0, 70, 7):
            demand(at < len(message), "protobuf: cut off")
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                demand(number < 1 << 64, "protobuf: a number that is too large")
                return number
        raise Invalid("protobuf: a number that is too long")

    while at < len(message):
        field, kind = divmod(varint(), 8)
        demand(kind in (0, 1, 2, 5) and 1 <= field < 1 << 29, "protobuf: another type")
        value = varint() if kind in (0, 2) else 4 if kind == 5 else 8
        if kind != 0:
            demand(at + value <= len(message), "protobuf: cut off")
            at += value
            value = message[at - value : at] if kind == 2 else None
        if field in known:
            demand(field not in fields and isinstance(value, known[field]), "protobuf: twice, or another type")
            fields[field] = value
    return fields


def verify_statement(statement, origin, size, expected):
    text = statement_text(origin, size, expected, statement["claim"], statement["verdict"])
    note = f"{text}\n{statement['signature']}"
    demand(read_note(note)[0] == text, "signature: another form")
    for key in statement["keys"]:
        demand(signed_at(note, key), "statement: not signed")


def checkpoint_text(origin, size, hashed):
    return f"{origin}\n{size}\n{encode(hashed)}\n"


def statement_text(origin, size, hashed, claim, verdict):
    lines = canonical(claim).decode(), canonical(verdict).decode()
    return f"{STATEMENT}\n{checkpoint_text(origin, size, hashed)}{lines[0]}\n{lines[1]}\n"


def canonical(value):
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise Invalid("a value without canonical JSON") from error


def whole(text):
    demand(str(int(text)) == text, "a number with another form elsewhere")
    return int(text)


def fraction(text):
    raise Invalid(f"the number {text} is not written as a whole one")


def unique(pairs):
    fields = dict(pairs)
    demand(len(fields) == len(pairs), "an object has two fields of one name")
    demand(RAW_VALUE not in fields, "a field that parsers read differently")
    return fields


def parse(text):
    """A document as its text has it. Numbers stay as they are written: 7.0 is not 7."""
    value = json.loads(text, parse_int=whole, parse_float=fraction, parse_constant=fraction, object_pairs_hook=unique)
    demand(levels(value) <= MAX_LEVELS, f"more than {MAX_LEVELS} levels")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Invalid("half of a surrogate pair") from error
    return value


def levels(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


def read(path):
    return parse(path.read_text(encoding="utf-8"))

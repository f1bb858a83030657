"""The log of the test vectors, its keys and its receipts."""

from receipt_formats import COSIGNATURE, FILE_FIELD, Key, canonical, checkpoint_text, encode, inclusion, leaf_hash
from receipt_formats import protobuf, root, sha256, statement_text

GENERATION = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
LIVE, SANDBOX = f"trade-thesis/live/{GENERATION}", f"trade-thesis/sandbox/{GENERATION}"
# Leaves of the tree; the receipts' entries are among them.
SIZE = 300
# The entry about an archive file.
FILE_SEQUENCE = 200
# The time of the cosignatures, in seconds.
WITNESSED_AT = 1_790_000_000


def seed(name):
    return sha256(f"test vectors of receipts: {name}".encode())


KEY, SANDBOX_KEY = Key(LIVE, seed("live")), Key(SANDBOX, seed("sandbox"))
OTHER_KEY = Key(LIVE, seed("another key"))
WITNESS = Key("witness.example/one", seed("witness"), COSIGNATURE)
OTHER_WITNESS = Key("witness.example/two", seed("another witness"), COSIGNATURE)

PLAIN = "Glass demand is back, so I hold $RUN."


def evidence(sequence, text, kind="thesis.created", dataset="live"):
    created = {
        "type": kind,
        "dataset": dataset,
        "sequence": sequence,
        "thesis_id": f"th_{sequence:024}",
        "profile": {"id": "fp_9sr15t0vwj9rd7z9dqe3s4yw", "handle": "@ann"},
        "token": {"id": "tk_9z8y7x6w5v4t3s2r1q0p9n8m", "chain": "base", "address": "0xRuN", "symbol": "$RUN"},
        "text": text,
        "created_at": "2026-11-23T20:39:28.928Z",
        "recorded_at": "2026-11-23T20:39:29.004Z",
    }
    if kind == "thesis.deleted":
        del created["text"]
    return created


def salt_of(index):
    return sha256(b"salt", index.to_bytes(8, "big"))[:16]


FILE = {
    "date": "2026-11-23",
    "kind": "theses",
    "position": 180,
    "rows": 2,
    "bytes": 4_711,
    "sha256": sha256(b"the bytes of a file").hex(),
}


def file_entry(sequence, file):
    """The entry about an archive file, as the log stores it."""
    content = protobuf(dict(enumerate(file.values(), 1)))
    return protobuf({1: f"ent_{sequence:024}", 2: 1_795_478_705_123, FILE_FIELD: content, 15: salt_of(sequence - 1)})


def entry_fields(stored):
    return {"evidence": sha256(stored).hex(), "entry": encode(stored)}


class Log:
    """A log of made-up entries, some of which have evidence."""

    def __init__(self, key, size=SIZE):
        self.key = key
        self.leaves = [leaf_hash(sha256(key.name.encode(), number.to_bytes(8, "big"))) for number in range(size)]
        self.salts = {}

    def put(self, index, content):
        salt = salt_of(index)
        self.leaves[index] = leaf_hash(sha256(salt, content))
        self.salts[index] = salt

    def record(self, recorded):
        self.put(recorded["sequence"] - 1, canonical(recorded))

    def checkpoint(self, signers, size=None):
        leaves = self.leaves[:size]
        text = checkpoint_text(self.key.name, len(leaves), root(leaves))
        return text + "\n" + "".join(signer.sign(text, WITNESSED_AT) for signer in signers)

    def receipt(self, recorded, signers=None, size=None):
        subject = {"thesis_id": recorded["thesis_id"], "evidence": recorded}
        return self.prove(recorded["sequence"] - 1, subject, signers, size)

    def file_receipt(self, sequence, file):
        """The receipt of the entry about an archive file, which it adds to the log."""
        stored = file_entry(sequence, file)
        self.put(sequence - 1, sha256(stored))
        named = {name: file[name] for name in ("date", "kind", "sha256")}
        return self.prove(sequence - 1, named | entry_fields(stored))

    def prove(self, index, subject, signers=None, size=None):
        signers = signers or [self.key]
        hashes = "".join(f"{encode(hashed)}\n" for hashed in inclusion(index, self.leaves[:size]))
        return {
            "object": "receipt",
            **subject,
            "salt": encode(self.salts[index]),
            "index": index,
            "proof": f"c2sp.org/tlog-proof@v1\nindex {index}\n{hashes}\n{self.checkpoint(signers, size)}",
            "keys": [str(signer) for signer in signers if signer.kind != COSIGNATURE],
            "livemode": self.key.name == LIVE,
        }

    def statement(self, claim, verdict):
        text = statement_text(self.key.name, len(self.leaves), root(self.leaves), claim, verdict)
        return {
            "object": "statement",
            "claim": claim,
            "verdict": verdict,
            "checkpoint": self.checkpoint([self.key]),
            "signature": self.key.sign(text),
            "keys": [str(self.key)],
            "livemode": self.key.name == LIVE,
        }

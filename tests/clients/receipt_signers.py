"""Test vectors with several signatures under one checkpoint, and signatures of an odd form."""

from receipt_edits import changed
from receipt_formats import COSIGNATURE, Key, checkpoint_text, encode
from receipt_log import KEY, LIVE, OTHER_KEY, WITNESS, WITNESSED_AT, seed

# The end of the year 9999.
LAST_TIME = 253_402_300_799


def with_lines(receipt, *lines):
    """A receipt with more signatures."""
    return changed(receipt, "proof", receipt["proof"] + "".join(lines))


def checkpoint_of(receipt):
    """The signed text of its checkpoint."""
    text, _ = receipt["proof"].split("\n\n", 1)[1].split("\n\n")
    return text + "\n"


def unknown(name, number=0):
    """The signature of a key that the verifier does not know."""
    return f"— {name} {encode(number.to_bytes(4, 'big') + bytes(64))}\n"


def other_keys():
    """Keys of the same log: with its own, as many as a document may have."""
    return [Key(LIVE, seed(f"key {number}")) for number in range(1, 64)]


def many_signers(receipt):
    """Valid receipts."""
    text, trusted = checkpoint_of(receipt), {"trusted": [str(KEY)]}
    # None of these letters is white space, and a name or an id alone is not a key.
    names = ["witness.example/\ufeffone", "\u200bwitness", "\u2060", "🚀", "—", LIVE, WITNESS.name]
    lines = [unknown(name) for name in names] + [f"— other {encode(KEY.id + bytes(64))}\n"]
    lines += [unknown("many", number) for number in range(63 - len(lines))]
    yield "many-signatures", with_lines(receipt, *lines), trusted
    twice = changed(with_lines(receipt, KEY.sign(text)), "keys", [str(KEY)] * 2)
    yield "signed-twice", twice, trusted
    keys = [KEY, *other_keys()]
    signed = with_lines(receipt, *(key.sign(text) for key in keys[1:]))
    yield "sixty-four-keys", changed(signed, "keys", list(map(str, keys))), trusted
    cosigned = with_lines(receipt, WITNESS.sign(text, WITNESSED_AT), WITNESS.sign(text, LAST_TIME))
    yield "cosigned-twice", cosigned, trusted | {"witnesses": [str(WITNESS)]}
    odd = Key("witness.example/\ufeffone", seed("odd witness"), COSIGNATURE)
    yield "witness-with-odd-name", with_lines(receipt, odd.sign(text, 0)), trusted | {"witnesses": [str(odd)]}


def wrong_signers(receipt):
    """Receipts with a signature that makes them invalid."""
    text, proof, by_witness = checkpoint_of(receipt), receipt["proof"], {"witnesses": [str(WITNESS)]}
    forged = KEY.line(bytes(64))
    yield "wrong-signature-last", with_lines(receipt, forged), {}, "signature"
    own = KEY.sign(text)
    yield "wrong-signature-first", changed(receipt, "proof", proof.replace(own, forged + own)), {}, "signature"
    yield "short-signature", changed(receipt, "proof", proof.replace(own, KEY.line(bytes(63)))), {}, "signature"
    two = with_lines(receipt, OTHER_KEY.line(bytes(64)))
    yield "wrong-second-signature", changed(two, "keys", [str(KEY), str(OTHER_KEY)]), {}, "signature"
    cosigned, wrong = WITNESS.sign(text, WITNESSED_AT), WITNESS.line(WITNESSED_AT.to_bytes(8, "big") + bytes(64))
    yield "wrong-cosignature-last", with_lines(receipt, cosigned, wrong), by_witness, "signature"
    short = WITNESS.line(WITNESSED_AT.to_bytes(8, "big") + bytes(63))
    yield "short-cosignature", with_lines(receipt, short), by_witness, "signature"
    for name, time in {"cosigned-in-10000": LAST_TIME + 1, "cosigned-in-2-to-63": 1 << 63}.items():
        yield name, with_lines(receipt, WITNESS.sign(text, time)), by_witness, "signature"
    lines = [unknown("many", number) for number in range(64)]
    yield "too-many-signatures", with_lines(receipt, *lines), {}, "form"
    yield "too-many-keys", changed(receipt, "keys", [str(KEY)] * 65), {}, "keys"
    for name, letter in {
        "no-break-space": "\u00a0",
        "next-line": "\u0085",
        "line-separator": "\u2028",
        "ideographic-space": "\u3000",
        "plus": "+",
        "nul": "\0",
        "delete": "\u007f",
        "control-sequence": "\u009b",
    }.items():
        yield f"signer-with-{name}", with_lines(receipt, unknown(f"witness{letter}one")), {}, "form"
    yield "signer-without-name", with_lines(receipt, unknown("")), {}, "form"
    yield "empty-signature", with_lines(receipt, f"— witness {encode(KEY.id)}\n"), {}, "form"
    for name, size in {"size-2-to-53": 1 << 53, "size-2-to-64": 1 << 64}.items():
        large = checkpoint_text(LIVE, size, bytes(32))
        head, _ = proof.split("\n\n", 1)
        yield name, changed(receipt, "proof", f"{head}\n\n{large}\n{KEY.sign(large)}"), {}, "form"
    for name, origin in {
        "log-of-unknown-dataset": LIVE.replace("live", "other"),
        "log-without-generation": LIVE[: LIVE.rindex("/") + 1],
        "log-with-more-parts": f"{LIVE}/more",
    }.items():
        yield name, changed(receipt, "proof", proof.replace(LIVE, origin)), {}, "origin"

"""Test vectors with the same data in another spelling, and with odd names of fields."""

import json

from receipt_edits import changed, dump, swapped, with_field
from receipt_log import KEY, PLAIN, Log, evidence

URL_SAFE = str.maketrans("+/", "-_")


def odd_documents(receipt):
    """Valid documents: name, document, and how to verify it."""
    # Texts and names may have any letter. Some names mean something in JavaScript.
    letters = ["\0", "\t", "\u001f", "\u007f", "\u009b", "\u00a0", "\u200b", "\u2028", "\ufeff"]
    names = [*letters, "", "a", "\ufeffa", "__proto__", "constructor"]
    recorded = evidence(1, "\ufeff\0\u009b") | {"later": {name: {name: name} for name in names}}
    lone = Log(KEY, 1)
    lone.record(recorded)
    yield "odd-names", lone.receipt(recorded), {"trusted": [str(KEY)]}
    claim, verdict = {"\ufeff": "\0", "__proto__": None}, {"\0": ["\ufeff", "\u2028"]}
    yield "statement-with-odd-names", lone.statement(claim, verdict), {"trusted": [str(KEY)]}
    # These names are not those of fields, and change none.
    others = '"\\ufeffobject": "thesis", "object\\u0000": 1, "Entry": "", "__proto__": {"entry": ""}, " index": 1'
    yield "names-like-fields", with_field(receipt, others), {}
    spaced = "".join(f"\r\n\t {line.strip()} " for line in dump(receipt).splitlines()).replace('": ', '"\t\r\n : \r')
    yield "white-space", f" \t\r\n{spaced}\r\n\t ", {}
    yield "no-space", json.dumps(receipt, separators=(",", ":")), {}
    escaped = "".join(f"\\u{ord(letter):04X}" for letter in PLAIN)
    yield "escaped-text", swapped(dump(receipt), PLAIN, escaped), {}


def other_spellings(receipt):
    """Receipts with the same bytes in another spelling, which lenient readers take."""
    salt, proof = receipt["salt"], receipt["proof"]
    yield "salt-without-padding", changed(receipt, "salt", salt.rstrip("=")), {}, "salt"
    yield "salt-with-newline", changed(receipt, "salt", salt + "\n"), {}, "salt"
    # The last letter before the padding has four bits that mean nothing.
    trailing = salt[:21] + chr(ord(salt[21]) + 1) + "=="
    yield "salt-with-more-bits", changed(receipt, "salt", trailing), {}, "salt"
    yield "proof-with-crlf", changed(receipt, "proof", proof.replace("\n", "\r\n")), {}, "form"
    yield "hash-without-padding", changed(receipt, "proof", swapped(proof, "=\n", "\n")), {}, "form"
    yield "index-07", changed(receipt, "proof", swapped(proof, "index 6\n", "index 06\n")), {}, "form"
    upper_case = swapped(str(KEY), KEY.id.hex(), KEY.id.hex().upper())
    yield "key-id-in-upper-case", changed(receipt, "keys", [upper_case]), {}, "key"
    for name, letter in {"nul": "\0", "space": " ", "byte-order-mark": "\ufeff"}.items():
        yield f"salt-and-{name}", changed(receipt, "salt", salt + letter), {}, "salt"
        yield f"key-and-{name}", changed(receipt, "keys", [str(KEY) + letter]), {}, "key"
        yield f"{name}-and-key", changed(receipt, "keys", [letter + str(KEY)]), {}, "key"
        spelled = swapped(proof, "index 6", f"index 6{letter}")
        yield f"index-and-{name}", changed(receipt, "proof", spelled), {}, "form"
        yield f"{name}-and-proof", changed(receipt, "proof", letter + proof), {}, "form"
        yield f"thesis-and-{name}", changed(receipt, "thesis_id", receipt["thesis_id"] + letter), {}, "thesis"
    yield "key-and-newline", changed(receipt, "keys", [str(KEY) + "\n"]), {}, "key"
    for name, index in {"index-2-to-53": 1 << 53, "index-plus": "+6", "index-other-digits": "\u0666"}.items():
        yield name, changed(receipt, "proof", swapped(proof, "index 6\n", f"index {index}\n")), {}, "form"


def url_safe_spellings(receipt):
    """Receipts with bytes in base64 in the alphabet for URLs, which differs in two letters."""
    proof, key = receipt["proof"], receipt["keys"][0]
    one_hash = next(line for line in proof.split("\n")[2:] if line != line.translate(URL_SAFE))
    signature = proof.rstrip("\n").rpartition(" ")[2]
    for name, field, text, why in (
        ("salt", "salt", receipt["salt"], "salt"),
        ("entry", "entry", receipt["entry"], "entry"),
        ("key", "keys", key.split("+", 2)[2], "key"),
        ("hash", "proof", one_hash, "form"),
        ("signature", "proof", signature, "form"),
    ):
        spelled = swapped(key if field == "keys" else receipt[field], text, text.translate(URL_SAFE))
        assert spelled not in (key, receipt[field]), name
        yield f"{name}-url-safe", changed(receipt, field, [spelled] if field == "keys" else spelled), {}, why

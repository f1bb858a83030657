"""Creates the test vectors in docs/receipts. They are the same each time, and the test of the clients compares them.

`receipt_vectors.py FOLDER` writes them into a folder that is empty or has older vectors. It needs the packages of
`receipt_formats.py`."""

import pathlib
import sys

from receipt_edits import changed, dump, in_list, swapped, with_field, without, written
from receipt_formats import canonical, consistency, encode, inclusion, leaf_hash, node_hash, protobuf, root, sha256
from receipt_entries import odd_entries, wrong_entries
from receipt_log import FILE, FILE_SEQUENCE, KEY, LIVE, OTHER_KEY, OTHER_WITNESS, PLAIN, SANDBOX, SANDBOX_KEY, SIZE
from receipt_log import WITNESS, WITNESSED_AT, Log, entry_fields, evidence, file_entry
from receipt_mutations import FILES as MUTATED
from receipt_mutations import mutations
from receipt_signers import many_signers, wrong_signers
from receipt_spellings import odd_documents, other_spellings, url_safe_spellings
from receipt_unreadable import unreadable

TEXTS = {
    "plain": PLAIN,
    "umlauts": "Größe übertrifft Mäßigung: ÄÖÜäöüß, déjà vu, Ångström, I\u0307stanbul.",
    "emoji": "To the moon 🚀🌕 with 👩‍👩‍👧‍👦, 👍🏽 and 🏴󠁧󠁢󠁥󠁮󠁧󠁿.",
    "right-to-left": "السعر سيرتفع قريبًا, ולכן אני מחזיק $RUN. \u202bשלום\u202c",
    "escapes": 'Quote ", backslash \\, slash /, tab \t, newline \n, return \r, '
    "\b, \f, \u0000, \u001f, \u007f, \u2028, \u2029.",
    "2000-characters": "Lange Begründung – 長い理由 🚀 " * 76 + "0123456789abcdef0123456789abcdef"[:24],
    "empty": "",
}


# Letters that control a terminal or turn the direction of a text.
HOSTILE = "\u202e\u2066\u001b[2J\u200f"


def documents():
    """Valid documents: name, document, and how to verify it."""
    log, sandbox = Log(KEY), Log(SANDBOX_KEY)
    recorded = {name: evidence(7 + 41 * number, text) for number, (name, text) in enumerate(TEXTS.items())}
    recorded["edited"] = evidence(299, "Edited: " + PLAIN, "thesis.edited")
    recorded["deleted"] = evidence(300, None, "thesis.deleted")
    later = {"z": [1, None, True], "ä": 9007199254740991, "🚀": "", "\ufb33": 0}
    recorded["more-fields"] = evidence(1, PLAIN) | {"later": later}
    hostile = evidence(295, PLAIN)
    hostile["profile"]["handle"], hostile["token"]["symbol"] = f"@{HOSTILE}ann", f"$RUN{HOSTILE}"
    recorded["hostile-names"] = hostile
    for one in recorded.values():
        log.record(one)
    of_sandbox = evidence(256, PLAIN, dataset="sandbox")
    sandbox.record(of_sandbox)
    archived = sandbox.file_receipt(FILE_SEQUENCE, FILE)
    lone = Log(KEY, 1)
    lone.record(recorded["more-fields"])
    for name, one in recorded.items():
        yield name, log.receipt(one), {}
    yield "trusted-key", log.receipt(recorded["plain"]), {"trusted": [str(KEY)]}
    witnessed = log.receipt(recorded["plain"], [KEY, WITNESS, OTHER_WITNESS])
    yield "witnessed", witnessed, {"trusted": [str(KEY)], "witnesses": [str(WITNESS)]}
    yield "two-keys", log.receipt(recorded["plain"], [KEY, OTHER_KEY]), {"trusted": [str(OTHER_KEY)]}
    yield "sandbox", sandbox.receipt(of_sandbox), {}
    yield "one-leaf", lone.receipt(recorded["more-fields"]), {}
    yield "earlier-checkpoint", log.receipt(recorded["plain"], size=8), {}
    yield "archive-file", archived, {"trusted": [str(SANDBOX_KEY)]}
    claim = {"handle": "@ann", "token": "$RUN", "created_after": "2026-11-01T00:00:00Z", "contains": "größer 🚀"}
    verdict = {"object": "thesis_verification", "verified": False, "reason": "THESIS_NOT_FOUND", "profile_id": None}
    replaced = evidence(1, "The bytes \ufffd are recorded.")
    other = Log(KEY, 1)
    other.record(replaced)
    yield "replacement-character", other.receipt(replaced), {}
    # Neither a backslash before "ud83d" nor a whole pair is half of one, and 127 levels are allowed.
    fields = f'"later": ["\\\\ud83d", "\\ud83d\\ude80", {"[" * 125}{"]" * 125}]'
    yield "unknown-fields", with_field(log.receipt(recorded["plain"]), fields), {}
    yield "statement", log.statement(claim, verdict), {"trusted": [str(KEY)]}
    yield from odd_documents(log.receipt(recorded["plain"]))
    yield from many_signers(log.receipt(recorded["plain"]))
    yield from odd_entries()


def wrong_documents(valid):
    """Documents that prove nothing: name, document, how to verify it, and what is wrong."""
    plain, other, statement = valid["plain"], valid["umlauts"], valid["statement"]
    proof = plain["proof"]
    lines = proof.split("\n")
    root_line = lines[lines.index(LIVE) + 2]
    yield "changed-text", changed(plain, "evidence", "text", PLAIN + "!"), {}, "root"
    yield "changed-handle", changed(plain, "evidence", "profile", "handle", "@bob"), {}, "root"
    yield "changed-address", changed(plain, "evidence", "token", "address", "0xrun"), {}, "root"
    yield "changed-time", changed(plain, "evidence", "recorded_at", "2026-11-22T20:39:29.004Z"), {}, "root"
    yield "added-field", changed(plain, "evidence", "more", ""), {}, "root"
    yield "changed-salt", changed(plain, "salt", encode(bytes(16))), {}, "root"
    yield "short-salt", changed(plain, "salt", encode(bytes(15))), {}, "salt"
    yield "fraction", changed(plain, "evidence", "sequence", 7.5), {}, "number"
    # They are whole, so readers that round take them for the number.
    yield "sequence-7.0", written(plain, "sequence", "7.0"), {}, "number"
    yield "sequence-7e0", written(plain, "sequence", "7e0"), {}, "number"
    yield "minus-zero", written(valid["more-fields"], "\ufb33", "-0"), {}, "number"
    yield "rounded", written(valid["more-fields"], "ä", "9007199254740990.6"), {}, "number"
    yield "too-large", written(valid["more-fields"], "ä", "9007199254740993"), {}, "number"
    yield "evidence-number", changed(plain, "evidence", 5), {}, "evidence"
    # Readers that fill the fields of a type may take a list of their values for them.
    yield "evidence-in-list", changed(plain, "evidence", in_list(plain["evidence"])), {}, "evidence"
    profile = in_list(plain["evidence"]["profile"])
    yield "profile-in-list", changed(plain, "evidence", "profile", profile), {}, "evidence"
    yield "type-in-object", changed(plain, "evidence", "type", {"thesis.created": None}), {}, "evidence"
    yield "evidence-without-handle", without(plain, "evidence", "profile", "handle"), {}, "evidence"
    yield "beyond", valid_but_shorter(plain), {}, "beyond"
    yield "other-thesis", changed(plain, "thesis_id", other["thesis_id"]), {}, "thesis"
    yield "other-index", changed(plain, "index", plain["index"] + 1), {}, "index"
    yield "other-sequence", changed(plain, "evidence", "sequence", 8), {}, "sequence"
    yield "other-dataset", changed(plain, "evidence", "dataset", "sandbox"), {}, "dataset"
    yield "other-livemode", changed(plain, "livemode", False), {}, "livemode"
    yield "proof-of-another-leaf", changed(plain, "proof", other["proof"]), {}, "index"
    moved = swapped(other["proof"], f"index {other['index']}\n", f"index {plain['index']}\n")
    yield "hashes-of-another-leaf", changed(plain, "proof", moved), {}, "root"
    last = valid["deleted"]
    moved = swapped(last["proof"], f"index {last['index']}\n", f"index {plain['index']}\n")
    yield "hashes-of-the-last-leaf", changed(plain, "proof", moved), {}, "length"
    yield "missing-hash", changed(plain, "proof", "\n".join(lines[:2] + lines[3:])), {}, "length"
    yield "one-hash-more", changed(plain, "proof", "\n".join(lines[:3] + lines[2:])), {}, "length"
    many = swapped(proof, lines[2], "\n".join(lines[2:3] * 70))
    yield "seventy-hashes", changed(plain, "proof", many), {}, "length"
    yield "changed-hash", changed(plain, "proof", swapped(proof, lines[2], encode(bytes(32)))), {}, "root"
    yield "cut-off-proof", changed(plain, "proof", proof[: len(proof) // 2]), {}, "form"
    yield "changed-root", changed(plain, "proof", swapped(proof, root_line, encode(bytes(32)))), {}, "signature"
    yield "changed-size", changed(plain, "proof", swapped(proof, f"\n{SIZE}\n", f"\n{SIZE + 1}\n")), {}, "signature"
    yield "log-of-another-dataset", changed(plain, "proof", swapped(proof, LIVE, SANDBOX)), {}, "dataset"
    other_log = swapped(proof, LIVE, LIVE.replace("trade", "other"))
    yield "log-of-another-service", changed(plain, "proof", other_log), {}, "origin"
    yield "no-signature", changed(plain, "proof", swapped(proof, lines[-2] + "\n", "")), {}, "form"
    yield "no-keys", changed(plain, "keys", []), {}, "keys"
    yield "another-key", changed(plain, "keys", [str(OTHER_KEY)]), {}, "unsigned"
    yield "changed-key-id", changed(plain, "keys", [swapped(str(KEY), KEY.id.hex(), OTHER_KEY.id.hex())]), {}, "key"
    yield "untrusted-key", plain, {"trusted": [str(OTHER_KEY)]}, "untrusted"
    yield "forged", forged(plain), {"trusted": [str(KEY)]}, "untrusted"
    yield "not-witnessed", plain, {"witnesses": [str(WITNESS)]}, "witness"
    cosigned = valid["witnessed"]["proof"]
    line = next(line for line in cosigned.split("\n") if line.startswith(f"— {WITNESS.name} "))
    later = WITNESS.line((WITNESSED_AT - 1).to_bytes(8, "big") + bytes(64)).rstrip("\n")
    document = changed(valid["witnessed"], "proof", swapped(cosigned, line, later))
    yield "wrong-cosignature", document, {"witnesses": [str(WITNESS)]}, "signature"
    yield "changed-verdict", changed(statement, "verdict", "verified", True), {}, "signature"
    yield "changed-claim", changed(statement, "claim", "handle", "@bob"), {}, "signature"
    yield "statement-signature", changed(statement, "signature", statement["signature"][:-1]), {}, "form"
    yield from wrong_signers(plain)
    yield from other_spellings(plain)
    yield from url_safe_spellings(valid["archive-file"])
    yield from wrong_file_receipts(valid["archive-file"])
    yield from wrong_entries()


def wrong_file_receipts(receipt):
    """Receipts of an archive file that prove nothing."""
    other_hash = sha256(b"the bytes of another file").hex()
    yield "file-other-date", changed(receipt, "date", "2026-11-24"), {}, "file"
    yield "file-other-kind", changed(receipt, "kind", "events"), {}, "file"
    yield "file-other-hash", changed(receipt, "sha256", other_hash), {}, "file"
    yield "file-other-evidence", changed(receipt, "evidence", other_hash), {}, "entry"
    yield "file-hash-in-upper-case", changed(receipt, "sha256", receipt["sha256"].upper()), {}, "file"
    yield "file-evidence-in-upper-case", changed(receipt, "evidence", receipt["evidence"].upper()), {}, "entry"
    stored = file_entry(FILE_SEQUENCE, FILE)
    yield "file-cut-off-entry", receipt | entry_fields(stored[:-1]), {}, "entry"
    yield "file-entry-of-thesis", receipt | entry_fields(protobuf({1: "evt_1", 4: b""})), {}, "entry"
    changed_entry = entry_fields(file_entry(FILE_SEQUENCE, FILE | {"sha256": other_hash}))
    yield "file-changed-entry", receipt | {"sha256": other_hash} | changed_entry, {}, "root"
    yield "file-other-index", changed(receipt, "index", receipt["index"] + 1), {}, "index"
    yield "file-other-livemode", changed(receipt, "livemode", True), {}, "livemode"
    yield "file-changed-salt", changed(receipt, "salt", encode(bytes(16))), {}, "root"


def valid_but_shorter(receipt):
    """A receipt whose checkpoint ends right before the entry."""
    head, _ = receipt["proof"].split("\n\n", 1)
    return changed(receipt, "proof", f"{head}\n\n{Log(KEY, receipt['index']).checkpoint([KEY])}")


def forged(receipt):
    """A receipt by somebody who made a key of their own: whoever knows the service's key refuses it."""
    log = Log(OTHER_KEY)
    recorded = changed(receipt, "evidence", "text", "I was first.")["evidence"]
    log.record(recorded)
    return log.receipt(recorded)


def tree():
    """Roots and proofs of small trees. The content of leaf n is the byte n."""
    leaves = [leaf_hash(bytes([number])) for number in range(20)]
    return {
        "leaves": [encode(leaf) for leaf in leaves],
        "roots": [encode(root(leaves[:size])) for size in range(len(leaves) + 1)],
        "node": encode(node_hash(leaves[0], leaves[1])),
        "inclusion": [
            {"index": index, "size": size, "proof": [encode(one) for one in inclusion(index, leaves[:size])]}
            for size in (1, 2, 3, 7, 8, 20)
            for index in range(size)
        ],
        "consistency": [
            {"old": old, "new": new, "proof": [encode(one) for one in consistency(old, leaves[:new])]}
            for new in (1, 3, 8, 13, 20)
            for old in range(1, new + 1)
        ],
    }


def files():
    """The files by their paths."""
    listed, made = [], {}
    valid = {}

    def add(kind, name, text, how, why=None):
        path = f"{kind}/{name}.json"
        made[path] = text
        listed.append({"file": path, "trusted": [], "witnesses": []} | how | {"wrong": why})

    for name, document, how in documents():
        valid[name] = document
        add("valid", name, document if isinstance(document, str) else dump(document), how)
    for name, document, how, why in wrong_documents(valid):
        add("invalid", name, document if isinstance(document, str) else dump(document), how, why)
    for name, text in unreadable(valid):
        add("unreadable", name, text, {}, "unreadable")
    keys = {"log": KEY, "sandbox": SANDBOX_KEY, "other": OTHER_KEY, "witness": WITNESS, "other_witness": OTHER_WITNESS}
    shown = [valid[name]["evidence"] for name in (*TEXTS, "more-fields", "odd-names")]
    index = {
        "keys": {name: str(key) for name, key in keys.items()},
        "canonical": [{"value": value, "json": canonical(value).decode()} for value in shown],
        "tree": tree(),
        "documents": listed,
    }
    listed_mutations = mutations({name: dump(valid[name]) for name in MUTATED})
    return made | {"vectors.json": dump(index), "mutations.json": listed_mutations}


def main():
    folder = pathlib.Path(sys.argv[1])
    for path, text in files().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # Not `write_text`, which would change the ends of lines on some systems.
        file.write_bytes(text.encode())


if __name__ == "__main__":
    main()

"""Checks receipts with aics-tlog, a package for the logs of C2SP, and rfc8785.

`receipt_tlog.py FOLDER` checks the trees and the documents of the test vectors. With a receipt of a running service and
its address, it also checks that receipt, and builds the tree of the sandbox from the tiles."""

import base64
import hashlib
import json
import pathlib
import sys

import aics_tlog as tlog
import rfc8785

# What the package refuses in a document. It knows nothing of the other parts, which `receipt_formats.py` checks.
PARTS_OF_LOGS = {"beyond", "length", "root", "signature", "unsigned"}
# The package refuses a second line of a known key, which C2SP allows, and takes any time of a cosignature.
JUDGED_OTHERWISE = {
    "valid/signed-twice.json",
    "valid/cosigned-twice.json",
    "invalid/cosigned-in-10000.json",
    "invalid/cosigned-in-2-to-63.json",
}


def decode(text):
    return base64.b64decode(text, validate=True)


def decode_all(texts):
    return [decode(text) for text in texts]


def check_trees(tree):
    leaves, roots = decode_all(tree["leaves"]), decode_all(tree["roots"])
    grown = tlog.MerkleTree([bytes([number]) for number in range(len(leaves))])
    assert [grown.root(size) for size in range(len(leaves) + 1)] == roots
    for row in tree["inclusion"]:
        index, size, proof = row["index"], row["size"], decode_all(row["proof"])
        assert grown.inclusion_proof(index, size) == proof, row
        assert tlog.verify_inclusion(leaves[index], index, size, proof, roots[size]), row
    for row in tree["consistency"]:
        old, new, proof = row["old"], row["new"], decode_all(row["proof"])
        assert grown.consistency_proof(old, new) == proof, row
        assert tlog.verify_consistency(old, new, roots[old], roots[new], proof), row


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def read_proof(text):
    """Index and hashes of a proof, and its checkpoint."""
    head, checkpoint = text.split("\n\n", 1)
    _, index, *hashes = head.split("\n")
    return int(index.removeprefix("index ")), decode_all(hashes), checkpoint


def is_included(receipt):
    index, hashes, note = read_proof(receipt["proof"])
    evidence = bytes.fromhex(receipt["evidence"]) if "entry" in receipt else rfc8785.dumps(receipt["evidence"])
    leaf = tlog.leaf_hash(sha256(decode(receipt["salt"]), evidence))
    checkpoint = tlog.parse_checkpoint(tlog.parse_note(note).text)
    return tlog.verify_inclusion(leaf, index, checkpoint.size, hashes, checkpoint.root)


def is_signed(statement):
    lines = tlog.parse_note(statement["checkpoint"]).text.split("\n")[:3]
    values = [rfc8785.dumps(statement[name]).decode() for name in ("claim", "verdict")]
    text = "\n".join(["trade-thesis statement v1", *lines, *values]) + "\n"
    note = tlog.parse_note(f"{text}\n{statement['signature']}")
    return note.text == text and tlog.verify_note(note, [tlog.parse_vkey(key) for key in statement["keys"]])


def is_valid(document, witnesses):
    """Whether keys and witnesses signed the checkpoint, and the tree has the entry or the statement is signed."""
    is_receipt = document["object"] == "receipt"
    try:
        checkpoint = read_proof(document["proof"])[2] if is_receipt else document["checkpoint"]
        note, cosigners = tlog.parse_note(checkpoint), [tlog.parse_vkey(key) for key in witnesses]
        for key in document["keys"]:
            if not tlog.verify_checkpoint(note, tlog.parse_vkey(key), cosigners, len(cosigners)).ok:
                return False
        return is_included(document) if is_receipt else is_signed(document)
    except ValueError:
        return False


def check_documents(folder, rows):
    checked = 0
    for row in rows:
        if row["wrong"] not in (None, *PARTS_OF_LOGS) or row["file"] in JUDGED_OTHERWISE:
            continue
        document = json.loads((folder / row["file"]).read_text(encoding="utf-8"))
        assert is_valid(document, row["witnesses"]) == (row["wrong"] is None), row
        checked += 1
    assert checked > 40, checked


def check_service(receipt, address):
    assert is_valid(receipt, []), receipt
    index, hashes, note = read_proof(receipt["proof"])
    then = tlog.parse_checkpoint(tlog.parse_note(note).text)
    reader = tlog.HttpTileReader(f"{address}/v1/log/sandbox", proxies={})
    key = next(tlog.parse_vkey(key) for key in receipt["keys"])
    note = tlog.parse_note(reader.read_checkpoint())
    assert tlog.verify_checkpoint(note, key, expected_origin=then.origin).ok, note
    now = tlog.parse_checkpoint(note.text)
    assert tlog.tree_root_from_tiles(reader, now.size) == now.root
    assert tlog.inclusion_proof_from_tiles(reader, index, then.size, now.size) == hashes
    proof = tlog.consistency_proof_from_tiles(reader, then.size, now.size)
    assert tlog.verify_consistency(then.size, now.size, then.root, now.root, proof)


def main():
    folder, *service = sys.argv[1:]
    folder = pathlib.Path(folder)
    vectors = json.loads((folder / "vectors.json").read_text(encoding="utf-8"))
    check_trees(vectors["tree"])
    check_documents(folder, vectors["documents"])
    if service:
        file, address = service
        check_service(json.loads(pathlib.Path(file).read_text(encoding="utf-8")), address)


if __name__ == "__main__":
    main()

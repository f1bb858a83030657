"""Receipts: the vectors of `docs/receipts`."""

from __future__ import annotations

import base64
import json
import pathlib
import unittest
from typing import Any

from trade_thesis import receipts
from trade_thesis._canonical import canonical
from trade_thesis.types import Receipt

VECTORS = pathlib.Path(__file__).parents[3] / "docs/receipts"
INDEX: dict[str, Any] = json.loads((VECTORS / "vectors.json").read_text(encoding="utf-8"))


class Receipts(unittest.TestCase):
    def test_every_vector_has_its_verdict(self) -> None:
        kinds = set()
        for vector in INDEX["documents"]:
            content = (VECTORS / vector["file"]).read_bytes()
            given = {"trusted": vector["trusted"], "witnesses": vector["witnesses"]}
            with self.subTest(vector["file"]):
                if vector["wrong"] is None:
                    verified = receipts.verify(content, **given)
                    kinds.add(verified.kind)
                    self.assertEqual(verified.is_trusted, bool(vector["trusted"]))
                    self.assertEqual(len(verified.witnesses), len(vector["witnesses"]))
                    receipts.verify(json.loads(content), **given)
                else:
                    with self.assertRaises(receipts.ReceiptError) as caught:
                        receipts.verify(content, **given)
                    self.assertEqual(caught.exception.reason, vector["wrong"], str(caught.exception))
                    is_ambiguous = "two ways: an object has two fields '" in str(caught.exception)
                    self.assertEqual(is_ambiguous, vector["file"].startswith("unreadable/two-"))
        self.assertEqual(kinds, {"thesis", "file", "statement"})

    def test_no_mutation_is_valid(self) -> None:
        mutations = json.loads((VECTORS / "mutations.json").read_bytes())
        self.assertEqual(len(mutations), 1000)
        for mutation in mutations:
            content = (VECTORS / mutation["file"]).read_bytes()
            trusted = json.loads(content)["keys"]
            for place, removed, inserted in mutation["edits"]:
                content = content[:place] + base64.b64decode(inserted) + content[place + removed :]
            with self.subTest(mutation), self.assertRaises(receipts.ReceiptError):
                receipts.verify(content, trusted=trusted)

    def test_json_has_its_canonical_form(self) -> None:
        for vector in INDEX["canonical"]:
            self.assertEqual(canonical(vector["value"]), vector["json"])

    def test_it_takes_a_response_of_the_api(self) -> None:
        raw = json.loads((VECTORS / "valid/more-fields.json").read_bytes())
        verified = receipts.verify(Receipt.read(raw), trusted=[INDEX["keys"]["log"]])
        self.assertTrue(verified.is_trusted)
        self.assertIn("later", verified.document["evidence"])

    def test_what_is_no_receipt_is_unreadable(self) -> None:
        for content in (
            "[" * 100_000,
            b"\xff",
            "[]",
            '{"object": ["receipt"]}',
            "1" * (1 << 21),
            '{"object": "\\ud800"}',
        ):
            with self.assertRaises(receipts.ReceiptError) as caught:
                receipts.verify(content)
            self.assertEqual(caught.exception.reason, "unreadable")

    def test_a_document_has_one_mib_at_most(self) -> None:
        text = (VECTORS / "valid/plain.json").read_text(encoding="utf-8")
        space = " " * ((1 << 20) - len(text.encode()))
        receipts.verify(text + space)
        receipts.verify((text + space).encode())
        of_two_bytes = text.replace("{", '{"later": "' + "\u00e4" * (1 << 19) + '",', 1)
        for content in (text + space + " ", (text + space + " ").encode(), of_two_bytes):
            with self.assertRaises(receipts.ReceiptError) as caught:
                receipts.verify(content)
            self.assertEqual(caught.exception.reason, "unreadable")

    def test_a_given_key_that_is_malformed_is_refused_with_the_reason_key(self) -> None:
        content = (VECTORS / "valid/plain.json").read_bytes()
        key = INDEX["keys"]["log"]
        for keys in ({"trusted": [key, "no key"]}, {"trusted": [key[:-1]]}, {"witnesses": ["no key"]}):
            with self.assertRaises(receipts.ReceiptError) as caught:
                receipts.verify(content, **keys)
            self.assertEqual(caught.exception.reason, "key")

    def test_the_earliest_cosignature_counts(self) -> None:
        witness = [INDEX["keys"]["witness"]]
        verified = receipts.verify((VECTORS / "valid/cosigned-twice.json").read_bytes(), witnesses=witness)
        self.assertEqual(verified.witnesses[0].at.timestamp(), 1_790_000_000)


if __name__ == "__main__":
    unittest.main()

"""The types read every example of the description."""

from __future__ import annotations

import inspect
import json
import pathlib
import unittest
from collections.abc import Iterator
from typing import Any

from trade_thesis import AsyncClient, Client, types
from trade_thesis._models import read_event

DESCRIPTION = pathlib.Path(__file__).parents[2] / "openapi.json"


def examples() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The example of each response in JSON, with its operation and its schema."""
    document = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    for item in document["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                body = response.get("content", {}).get("application/json", {})
                if status[0] == "2" and "example" in body and "$ref" in body["schema"]:
                    yield operation["operationId"], body["schema"]["$ref"].rsplit("/", 1)[-1], body["example"]


class Models(unittest.TestCase):
    def test_each_example_is_read(self) -> None:
        read = set()
        for operation, name, example in examples():
            if operation in ("getAsyncDescription", "getDescription"):
                continue
            with self.subTest(operation):
                reader = read_event if name == "Event" else getattr(types, name).read
                value = reader(example)
                self.assertEqual(value.raw, example)
                repr(value)
                read.add(name)
        self.assertGreater(len(read), 20)

    def test_both_clients_have_the_same_operations(self) -> None:
        def operations(kind: type) -> dict[str, list[str]]:
            public = {name: one for name, one in inspect.getmembers(kind, callable) if not name.startswith("_")}
            return {name: list(inspect.signature(one).parameters) for name, one in public.items()}

        self.assertEqual(operations(Client), operations(AsyncClient))
        self.assertIn("iterate_theses", operations(Client))


if __name__ == "__main__":
    unittest.main()

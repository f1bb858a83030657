"""Receipts as others check them: by an implementation of the formats in Python, by Go's modules, and in Chromium."""

import asyncio
import json
import os
import pathlib
import subprocess

import receipt_formats
import receipt_vectors

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "docs/receipts"


def are_current():
    """The vectors of the repository are those that the script makes."""
    made = receipt_vectors.files()
    kept = {str(path.relative_to(VECTORS)): path.read_bytes() for path in VECTORS.rglob("*.json")}
    wanted = {path: text.encode() for path, text in made.items()}
    assert kept == wanted, "tests/clients/receipt_vectors.py docs/receipts writes them"


def is_valid(file, trusted, witnesses):
    try:
        receipt_formats.verify(receipt_formats.read(file), trusted, witnesses)
    except (receipt_formats.Invalid, json.JSONDecodeError, KeyError):
        return False
    return True


def python():
    """The vectors are as the script makes them, and `receipt_formats` judges each as it should."""
    are_current()
    documents = json.loads((VECTORS / "vectors.json").read_text(encoding="utf-8"))["documents"]
    for row in documents:
        judged = is_valid(VECTORS / row["file"], row["trusted"], row["witnesses"])
        assert judged == (row["wrong"] is None), row


async def run(*command):
    """Runs a program, which must succeed."""
    process = await asyncio.create_subprocess_exec(*map(str, command), stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def go():
    """Go's modules for signed notes and for trees judge the vectors as they should."""
    await run(os.environ["RECEIPTS_GO"], VECTORS)

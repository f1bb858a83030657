"""Checks receipts with independent implementations: one in Python, Go's modules, and the page in Chromium."""

import asyncio
import json
import os
import pathlib
import subprocess

import httpx
import receipt_formats
import receipt_vectors
from service import AUTHORIZATION

# Longest wait for a checkpoint that covers a thesis.
SOON = 30

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


async def live(service):
    """A file with the receipt of a thesis of the sandbox, the key of its log, and its latest checkpoint."""
    async with httpx.AsyncClient(base_url=service.http, headers=AUTHORIZATION) as client:
        # The newest theses may be the project's own, which have no receipts.
        theses = (await client.get("/v1/theses", params={"limit": 100})).raise_for_status().json()["data"]
        async with asyncio.timeout(SOON):
            while (answer := await client.get(f"/v1/theses/{theses[-1]['id']}/receipt")).status_code == 409:
                await asyncio.sleep(0.1)
        answer.raise_for_status()
    async with httpx.AsyncClient(base_url=service.http) as anybody:
        listed = (await anybody.get("/v1/log/keys")).raise_for_status().json()["data"]
        checkpoint = (await anybody.get("/v1/log/sandbox/checkpoint")).raise_for_status().text
    file = pathlib.Path(service.folder) / "receipt.json"
    file.write_bytes(answer.content)
    return file, [row["key"] for row in listed if row["retired_at"] is None], checkpoint


async def served(service):
    """The service's receipt and its checkpoint are valid for Python, and for the command."""
    file, keys, checkpoint = await live(service)
    receipt_formats.verify(receipt_formats.read(file), keys)
    origin, size, _ = receipt_formats.read_checkpoint(checkpoint)
    signed = [key for key in keys if key.startswith(f"{origin}+")]
    assert size > 0 and len(signed) == 1 and receipt_formats.signed_at(checkpoint, signed[0]), checkpoint
    trusted = [part for key in keys for part in ("--key", key)]
    told = json.loads(await run(service.program, "receipt", "verify", file, "--json", *trusted))
    assert told["verdict"] == "valid" and told["is_trusted"], told


async def tlog(service):
    """A package for the logs of C2SP judges vectors, receipt, checkpoint and tiles as it should."""
    file, *_ = await live(service)
    program = pathlib.Path(__file__).with_name("receipt_tlog.py")
    await run(os.environ["RECEIPTS_TLOG"], program, VECTORS, file, service.http)


async def go(service):
    """Go's modules for signed notes and for trees judge the vectors, and a receipt of the service, as they should."""
    file, *_ = await live(service)
    await run(os.environ["RECEIPTS_GO"], VECTORS, file)

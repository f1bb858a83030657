"""Runs the examples of the SDKs against the running program. Each has an empty folder of its own, API_URL and API_KEY.

    python examples.py PROGRAM KIND=COMMAND ...

The kind says what an example does:

- `quick_start` verifies a thesis, and ends.
- `receipt` gets a receipt, checks it, and ends. `receipt_file` checks the file of its first argument with the keys of
  the others.
- `follow` prints the ids of events about `$RUN`, and goes on where it was when it starts again.
- `follow_ten` prints the ids of ten created theses, and ends.
- `endpoint` takes the deliveries on PORT that WEBHOOK_SECRET has signed.
"""

import asyncio
import contextlib
import itertools
import json
import os
import pathlib
import shlex
import socket
import sys
import tempfile

import httpx
from live import SOON, client_of, post
from service import KEY, Service, break_off, endpoint

# How long to wait for an event before another one is created: when a stream is open is not known.
AGAIN = 1


class Example:
    """The program of an example."""

    def __init__(self, kind, command, folder, service):
        self.kind, self.command = kind, command
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.environment = os.environ | {"API_URL": service.http, "API_KEY": KEY, "PYTHONUNBUFFERED": "1"}

    def __str__(self):
        return f"{self.kind}: {self.command}"

    @contextlib.asynccontextmanager
    async def started(self, *arguments, **more):
        """The example while it runs."""
        process = await asyncio.create_subprocess_exec(
            *shlex.split(self.command),
            *arguments,
            cwd=self.folder,
            env=self.environment | more,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def output(self, *arguments):
        """What an example prints that ends by itself."""
        async with self.started(*arguments) as process:
            printed, _ = await asyncio.wait_for(process.communicate(), SOON)
        assert process.returncode == 0, f"{self}: exit code {process.returncode}"
        return printed.decode()

    async def prints(self, process, wanted):
        """Waits for a line with a text."""
        async with asyncio.timeout(SOON):
            while line := await process.stdout.readline():
                if wanted in line.decode():
                    return
        raise AssertionError(f"{self}: it ended without {wanted}")


async def follow(example, create):
    async with example.started() as process, asyncio.timeout(SOON):
        created, line = [], ""
        while not any(event in line for event in created):
            created.append(await create())
            with contextlib.suppress(TimeoutError):
                line = (await asyncio.wait_for(process.stdout.readline(), AGAIN)).decode()
                assert line, f"{example}: it ended"
        while not (example.folder / "cursor.txt").exists():
            await asyncio.sleep(0.05)
    missed = await create()
    async with example.started() as process:
        await example.prints(process, missed)


async def follow_ten(example, create):
    async with example.started() as process, asyncio.timeout(SOON):
        while process.returncode is None:
            await create()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), AGAIN / 10)
        printed = (await process.stdout.read()).decode()
    assert process.returncode == 0, f"{example}: exit code {process.returncode}"
    assert printed.count("evt_") == 10, f"{example}: {printed}"


async def delivery_of(client, create):
    """The secret of a webhook, and the headers and the body of a delivery."""
    with endpoint() as (url, arrived):
        webhook = await client.post("/v1/webhooks", json={"url": url, "events": ["thesis.created"]})
        webhook = webhook.raise_for_status().json()
        await create()
        headers, body = await asyncio.to_thread(arrived.get, timeout=SOON)
        (await client.delete(f"/v1/webhooks/{webhook['id']}")).raise_for_status()
    kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
    return webhook["secret"], kept, body


@contextlib.asynccontextmanager
async def listening(example, secret):
    """An endpoint after a request that broke off, and its address. Another program may take a port, so two are tried."""
    for _ in range(2):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        async with example.started(PORT=str(port), WEBHOOK_SECRET=secret) as process:
            if await breaks_off(process, port):
                yield process, f"http://127.0.0.1:{port}/"
                return
    raise AssertionError(f"{example}: exit code {process.returncode}")


async def breaks_off(process, port):
    """Breaks off a request once the port is open; false if the process ended before."""
    async with asyncio.timeout(SOON):
        while process.returncode is None:
            with contextlib.suppress(ConnectionRefusedError):
                await break_off(port)
                return True
            await asyncio.sleep(0.05)
    return False


async def take_delivery(example, secret, headers, body):
    async with listening(example, secret) as (process, address), httpx.AsyncClient() as client:
        try:
            response = await client.post(address, headers=headers, content=body)
        except httpx.TransportError as error:
            raise AssertionError(f"{example}: after a request that broke off: {error!r}") from error
        assert response.status_code == 204, f"{example}: {response.status_code}"
        await example.prints(process, json.loads(body)["id"])
        response = await client.post(address, headers=headers, content=body + b" ")
        assert response.status_code == 400, f"{example}: a changed body got {response.status_code}"


async def store_receipt(client, file):
    """Stores the receipt of a thesis of the sandbox; gives the text of the thesis and the keys of the log."""
    query = {"sort": "created_at_asc", "limit": 1, "chain": "sandbox"}
    [thesis] = (await client.get("/v1/theses", params=query)).raise_for_status().json()["data"]
    receipt = await client.get(f"/v1/theses/{thesis['id']}/receipt")
    file.write_bytes(receipt.raise_for_status().content)
    keys = (await client.get("/v1/log/keys")).raise_for_status().json()["data"]
    return thesis["text"], [key["key"] for key in keys]


async def play(example, client, create):
    if example.kind == "quick_start":
        printed = await example.output()
        assert "VERIFIED" in printed, f"{example}: {printed}"
    elif example.kind == "receipt":
        assert "entries" in await example.output(), f"{example}"
    elif example.kind == "receipt_file":
        text, keys = await store_receipt(client, example.folder / "receipt.json")
        printed = await example.output("receipt.json", *keys)
        assert text in printed and "trust: true" in printed, f"{example}: {printed}"
    elif example.kind == "follow":
        await follow(example, create)
    elif example.kind == "follow_ten":
        await follow_ten(example, create)
    elif example.kind == "endpoint":
        await take_delivery(example, *await delivery_of(client, create))
    else:
        raise AssertionError(f"{example}: there is no such kind")


async def main():
    program, *given = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="trade-thesis-examples.") as folder:
        pathlib.Path(folder, "service").mkdir()
        service = Service(program, f"{folder}/service")
        try:
            async with client_of(service) as client:
                numbers = itertools.count()

                async def create():
                    return (await post(client, "RUN", next(numbers)))[1]

                # The newest thesis, which the quick starts verify.
                await create()
                # Receipts come first: only theses of the sandbox have one, and those that other examples create push
                # them off the first page.
                for number, pair in enumerate(sorted(given, key=lambda pair: not pair.startswith("receipt"))):
                    kind, command = pair.split("=", 1)
                    await play(Example(kind, command, f"{folder}/{number}", service), client, create)
        finally:
            service.kill()
    print(f"examples: {len(given)}")


if __name__ == "__main__":
    asyncio.run(main())

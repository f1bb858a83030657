"""Runs the SDKs against the running program. Each language has a program that plays one scenario, which its argument names:

- `quick` walks the quick start, and checks a receipt offline.
- `errors` provokes an error of each class, and prints a line `CLASS CODE REQUEST_ID` for each.
- `keyless` makes a client without a key, and prints each key of the log and the line of the error of another call.
- `pages` iterates over the theses of a token, 100 a page, and prints the id of each.
- `stream` follows the events of a token from the cursor in CURSOR on, and prints the id of each.
- `webhook` verifies deliveries: it reads lines of JSON with `headers`, `body` in Base64 and `keys`, and prints for each the id of
  the event, or `refused`.
- `limited` calls until it is limited, without retries, and prints the seconds after which it may go on. Then it gets
  the checkpoint of the stub, with retries, and prints it. With WAITS=1 it calls the service once more with retries.

Each gets API_URL, API_KEY, in TOKEN the symbol of a token of its own, and in STUB_URL the address of a service that
fails.

    python live.py [--rows N] [--kills N] [--waits] PROGRAM LANGUAGE=COMMAND ...
"""

import argparse
import asyncio
import base64
import collections
import contextlib
import http.server
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

import httpx  # noqa: E402
from service import AUTHORIZATION, KEY, Service, endpoint  # noqa: E402

# Longest wait for one thing to happen.
SOON = 60
ERRORS = {
    "authentication": "INVALID_API_KEY",
    "permission": "HISTORY_LIMIT",
    "not_found": "TOKEN_NOT_FOUND",
    "conflict": "RECEIPT_UNAVAILABLE",
    "validation": "VALIDATION_FAILED",
    "invalid_request": "INVALID_CURSOR",
    "internal": "INTERNAL_ERROR",
    "upstream": "UPSTREAM_UNAVAILABLE",
}


class Stub(http.server.BaseHTTPRequestHandler):
    """A service that fails: by its path, in one of three ways."""

    def do_GET(self):
        if self.path.startswith("/v1/log/"):
            self.limit()
        elif self.path.startswith("/v1/me"):
            self.refuse(500, "internal", "INTERNAL_ERROR")
        else:
            self.refuse(503, "upstream", "UPSTREAM_UNAVAILABLE")

    def limit(self):
        """Limits the first request of a program for a second. The response to the next one is the time between them."""
        agent, now = self.headers["User-Agent"], time.monotonic()
        first = self.server.first_requests.pop(agent, None)
        if first is None:
            self.server.first_requests[agent] = now
            self.refuse(429, "rate_limit", "RATE_LIMITED", {"Retry-After": "1"})
        else:
            self.respond(200, str(now - first).encode())

    def refuse(self, status, kind, code, headers=None):
        error = {"type": kind, "code": code, "message": "as the test demands", "request_id": "req_stub"}
        headers = {"Content-Type": "application/json", **(headers or {})}
        self.respond(status, json.dumps({"error": error}).encode(), headers)

    def respond(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def stub():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        server.first_requests = {}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Program:
    """The program of one language."""

    def __init__(self, language, command, service, stub_url):
        self.language, self.command = language, shlex.split(command)
        self.token = "LIVE" + re.sub("[^A-Z]", "", language.upper())
        self.environment = os.environ | {
            "API_URL": service.http,
            "API_KEY": KEY,
            "TOKEN": self.token,
            "STUB_URL": stub_url,
        }

    async def start(self, scenario, **more):
        """Starts a scenario, whose output can be read."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self.command, scenario, env=self.environment | more, stdin=pipe, stdout=pipe
        )

    async def play(self, scenario, given="", **more):
        """Plays a scenario to its end; gives its lines."""
        process = await self.start(scenario, **more)
        try:
            output, _ = await asyncio.wait_for(process.communicate(given.encode()), 3 * SOON)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        assert process.returncode == 0, f"{self.language}: {scenario}: exit code {process.returncode}"
        return output.decode().split("\n")[:-1]


def limited(program, folder):
    """A service whose plan limits nothing but the class `verify`, to 20 a minute."""
    os.mkdir(folder)
    plans = (HERE / "../../src/plans.toml").read_text()
    plans = re.sub("standard_per_minute = .*", "standard_per_minute = 1_000_000", plans)
    file = pathlib.Path(folder, "plans.toml")
    file.write_text(re.sub("verify_per_minute = .*", "verify_per_minute = 20", plans))
    return Service(program, folder, {"SVC_PLANS_FILE": str(file)})


async def post(client, token, number):
    """Posts a thesis; gives the ids of thesis and event. The service may be away for a moment."""
    body = {"handle": "writer", "token": token, "text": f"number {number}"}
    headers = {"Idempotency-Key": f"live-{token}-{number}"}
    for _ in range(10 * SOON):
        with contextlib.suppress(httpx.TransportError):
            response = await client.post("/v1/test/theses", json=body, headers=headers)
            if response.status_code < 500:
                made = response.raise_for_status().json()
                return made["thesis"]["id"], made["event"]["id"]
        await asyncio.sleep(0.1)
    raise AssertionError("the service did not come back")


def client_of(service):
    return httpx.AsyncClient(base_url=service.http, headers=AUTHORIZATION, timeout=SOON)


async def quick(programs):
    await asyncio.gather(*(one.play("quick") for one in programs))


async def errors(programs):
    for one in programs:
        lines = [line.split(" ") for line in await one.play("errors")]
        found = {kind: code for kind, code, _ in lines}
        assert found == ERRORS, f"{one.language}: {found}"
        assert all(request_id.startswith("req_") for _, _, request_id in lines), f"{one.language}: {lines}"


async def keyless(service, programs):
    """Without a key a client reads the keys of the log, and gets the service's error elsewhere."""
    async with httpx.AsyncClient(base_url=service.http, timeout=SOON) as client:
        keys = (await client.get("/v1/log/keys")).raise_for_status().json()["data"]
    for one in programs:
        *found, error = await one.play("keyless")
        assert found == [key["key"] for key in keys] and found, f"{one.language}: {found}, not {keys}"
        assert error.startswith("authentication MISSING_API_KEY req_"), f"{one.language}: {error}"


async def pages(service, programs, rows):
    """All programs read the same rows."""
    gate = asyncio.Semaphore(20)

    async def row(client, number):
        async with gate:
            return (await post(client, "LIVEPAGES", number))[0]

    async with client_of(service) as client:
        ids = await asyncio.gather(*(row(client, number) for number in range(rows)))
    for one in programs:
        found = await one.play("pages", TOKEN="LIVEPAGES")
        assert sorted(found) == sorted(ids), f"{one.language}: {len(set(found))} of {rows} rows, {len(found)} in all"


async def stream(service, programs, kills):
    """All programs follow the same events, while the service is killed and comes back."""
    token = "LIVESTREAM"
    async with client_of(service) as client, client.stream("GET", "/v1/events/stream", params={"token": token}) as now:
        async for line in now.aiter_lines():
            if line.startswith("id: "):
                cursor = line.removeprefix("id: ")
                break
    followers = [await one.start("stream", TOKEN=token, CURSOR=cursor) for one in programs]
    expected = []
    try:
        async with client_of(service) as client:
            for kill in range(kills + 1):
                expected += [(await post(client, token, 10 * kill + number))[1] for number in range(5)]
                if kill < kills:
                    service.kill()
                    # A part of the posts comes while the service is away.
                    late = asyncio.create_task(post(client, token, 10 * kill + 5))
                    await asyncio.to_thread(service.start)
                    expected.append((await late)[1])
        for one, follower in zip(programs, followers):
            found = []
            while len(found) < len(expected):
                line = await asyncio.wait_for(follower.stdout.readline(), SOON)
                assert line, f"{one.language}: the stream ended after {len(found)} of {len(expected)} events"
                found.append(line.decode().strip())
            assert found == expected, f"{one.language}: {collections.Counter(expected) - collections.Counter(found)}"
    finally:
        for follower in followers:
            with contextlib.suppress(ProcessLookupError):
                follower.kill()
            await follower.wait()


async def webhook(service, programs):
    """Deliveries through a rotation, as they are and changed."""
    cases, expected = [], []
    with endpoint() as (url, arrived):
        async with client_of(service) as client:
            given = {"url": url, "events": ["thesis.created"], "filters": {"token": ["LIVEHOOK"]}}
            made = (await client.post("/v1/webhooks", json=given)).raise_for_status().json()
            old, public = made["secret"], made["public_key"]
            await post(client, "LIVEHOOK", 0)
            before = await asyncio.to_thread(arrived.get, timeout=SOON)
            rotated = await client.post(f"/v1/webhooks/{made['id']}/rotate-secret")
            new = rotated.raise_for_status().json()["secret"]
            await post(client, "LIVEHOOK", 1)
            after = await asyncio.to_thread(arrived.get, timeout=SOON)
            (await client.delete(f"/v1/webhooks/{made['id']}")).raise_for_status()
    standard = {"webhook-id", "webhook-timestamp", "webhook-signature"}

    def case(delivery, keys, names=None, is_valid=True, change=bytes):
        headers, body = {name.lower(): value for name, value in delivery[0].items()}, delivery[1]
        kept = {name: value for name, value in headers.items() if names is None or name in names}
        content = base64.b64encode(change(body)).decode()
        cases.append(json.dumps({"headers": kept, "body": content, "keys": keys}) + "\n")
        expected.append(json.loads(body)["id"] if is_valid else "refused")

    for names in ({"service-signature"}, standard, None):
        case(before, [old], names)
        case(after, [old], names)
        case(after, [new], names)
        case(before, [new], names, is_valid=False)
        case(before, [new, old], names)
        case(after, [new], names, is_valid=False, change=lambda body: body.replace(b"number 1", b"number 2"))
    case(after, [public], standard)
    case(after, [public], {"service-signature"}, is_valid=False)
    case(after, [old], set(), is_valid=False)
    for one in programs:
        found = await one.play("webhook", "".join(cases))
        assert found == expected, f"{one.language}: {found}, not {expected}"


async def limits(programs, waits):
    for one in programs:
        seconds, waited = await one.play("limited", WAITS="1" if waits else "")
        assert 0 < float(seconds) <= 60, f"{one.language}: {seconds}"
        assert float(waited) >= 1, f"{one.language}: {waited} s between a refusal and the next try"


async def play(given):
    with tempfile.TemporaryDirectory(prefix="trade-thesis-live.") as folder, stub() as stub_url:
        service = limited(given.program, f"{folder}/service")
        try:
            commands = (pair.split("=", 1) for pair in given.languages)
            programs = [Program(language, command, service, stub_url) for language, command in commands]
            await quick(programs)
            await errors(programs)
            await keyless(service, programs)
            await pages(service, programs, given.rows)
            await webhook(service, programs)
            await stream(service, programs, given.kills)
            await limits(programs, given.waits)
        finally:
            service.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--waits", action="store_true")
    parser.add_argument("program")
    parser.add_argument("languages", nargs="+")
    asyncio.run(play(parser.parse_args()))


if __name__ == "__main__":
    main()

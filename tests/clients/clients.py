"""Streams and webhooks as the clients that people use read them. `run` beside this file says which, and installs them."""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import httpx
import httpx_sse
import stripe
import websockets

import agents
import archive
import mail as mails
import receipts
import standard as standards
from service import AUTHORIZATION, KEY, Service, endpoint

# Longest wait for one thing to happen.
SOON = 30
# Longest walk through the console or the documentation.
CONSOLE_SOON = 1200
HERE = pathlib.Path(__file__).parent


def subscribe(token):
    return json.dumps({"op": "subscribe", "sub": "all", "types": ["thesis.created"], "filters": {"token": [token]}})


def stream(service, token):
    return f"{service.http}/v1/events/stream?types=thesis.created&token={token}"


async def python(service):
    """httpx-sse and websockets get the same event with the same cursor, and each resumes with it."""
    async with httpx.AsyncClient(timeout=SOON) as client, websockets.connect(
        service.socket, additional_headers=AUTHORIZATION
    ) as socket:
        assert json.loads(await socket.recv())["op"] == "welcome"
        await socket.send(subscribe("PYTHON"))
        assert json.loads(await socket.recv())["op"] == "subscribed"
        address = stream(service, "PYTHON")
        async with httpx_sse.aconnect_sse(client, "GET", address, headers=AUTHORIZATION) as source:
            events = source.aiter_sse()
            first = await anext(events)
            assert first.event == "stream.cursor" and 500 <= first.retry <= 5000, first
            made = [await service.post("PYTHON"), await service.post("PYTHON")]
            frames = [await anext(events), await anext(events)]
        told = [json.loads(await socket.recv()) for _ in made]
        assert [json.loads(frame.data)["id"] for frame in frames] == made
        assert [(message["event"]["id"], message["cursor"]) for message in told] == [
            (event, frame.id) for event, frame in zip(made, frames)
        ]
        resumed = AUTHORIZATION | {"Last-Event-ID": told[0]["cursor"]}
        async with httpx_sse.aconnect_sse(client, "GET", address, headers=resumed) as source:
            events = source.aiter_sse()
            await anext(events)
            assert json.loads((await anext(events)).data)["id"] == made[1]
        await asyncio.wait_for(await socket.ping(), SOON)


async def grpc_web(service):
    """`Subscribe` over gRPC-web: a heartbeat at once, then the event."""
    headers = AUTHORIZATION | {"content-type": "application/grpc-web+proto", "x-grpc-web": "1"}
    address = f"{service.grpc}/thesis.v1.EventService/Subscribe"
    # An empty message, in a frame of its own.
    async with httpx.AsyncClient(timeout=SOON) as client, client.stream(
        "POST", address, headers=headers, content=bytes(5)
    ) as answer:
        assert answer.status_code == 200, answer
        chunks, got = answer.aiter_raw(), b""
        while len(got) < 5 or len(got) < 5 + int.from_bytes(got[1:5], "big"):
            got += await anext(chunks)
        assert got[0] == 0, got
        event = (await service.post("GRPCWEB")).encode()
        while event not in got:
            got += await anext(chunks)


async def lines_until(process, found):
    """Reads a program's output until it has what is wanted."""
    text = ""
    while not found(text):
        line = await asyncio.wait_for(process.stdout.readline(), SOON)
        assert line, f"it ended: {text}"
        text += line.decode()
    return text


async def grpcurl(service):
    """grpcurl finds `Subscribe` by reflection, and gets the event."""
    process = await asyncio.create_subprocess_exec(
        os.environ["GRPCURL"], "-plaintext", "-H", f"authorization: Bearer {KEY}",
        "-d", '{"types": ["EVENT_TYPE_THESIS_CREATED"], "filters": {"token": ["GRPCURL"]}}',
        service.grpc.removeprefix("http://"), "thesis.v1.EventService/Subscribe",
        stdout=subprocess.PIPE,
    )  # fmt: skip
    await lines_until(process, lambda text: '"heartbeat"' in text)
    event = await service.post("GRPCURL")
    await lines_until(process, lambda text: event in text)
    process.kill()
    await process.wait()


async def node(service):
    """The npm packages eventsource and ws get the same events."""
    process = await asyncio.create_subprocess_exec(
        "node", HERE / "node.cjs", service.http, service.socket, KEY, stdout=subprocess.PIPE
    )
    await lines_until(process, lambda text: "open" in text)
    made = [await service.post("NODE"), await service.post("NODE")]
    told = json.loads((await lines_until(process, lambda text: text.endswith("\n"))))
    assert told == {"eventsource": made, "ws": made, "onmessage": 0}, told
    await process.wait()


def verifies(signature, body, secret):
    """Whether Stripe's library takes a delivery, as a signature and as a whole event alike."""
    try:
        taken = stripe.WebhookSignature.verify_header(body, signature, secret, tolerance=300)
    except stripe.SignatureVerificationError:
        taken = False
    try:
        event = stripe.Webhook.construct_event(body, signature, secret, tolerance=300)
        assert taken and event.id == json.loads(body)["id"]
    except stripe.SignatureVerificationError:
        assert not taken
    return taken


async def stripe_python(service):
    """Stripe's library for Python verifies deliveries, after a rotation by the new secret and by the old one."""
    async with httpx.AsyncClient(base_url=service.http, headers=AUTHORIZATION, timeout=SOON) as client:
        with endpoint() as (url, deliveries):
            given = {"url": url, "events": ["thesis.created"], "filters": {"token": ["PYSIGNED"]}}
            webhook = (await client.post("/v1/webhooks", json=given)).raise_for_status().json()
            address = f"/v1/webhooks/{webhook['id']}"
            secrets, signatures = [webhook["secret"]], []
            for text in ("signed", "signed by two: déjà vu 🚀"):
                event = await service.post("PYSIGNED", text)
                headers, body = await asyncio.to_thread(deliveries.get, timeout=SOON)
                signature = headers["service-signature"]
                assert json.loads(body)["id"] == event
                assert all(verifies(signature, body, secret) for secret in secrets), signature
                assert not verifies(signature, body, secrets[0] + "0")
                assert not verifies(signature, body + b" ", secrets[0])
                signatures.append(signature.count("v1="))
                rotated = (await client.post(f"{address}/rotate-secret")).raise_for_status().json()
                assert rotated["id"] == webhook["id"] and rotated["secret"] not in secrets, rotated["id"]
                assert not verifies(signature, body, rotated["secret"])
                secrets.insert(0, rotated["secret"])
            assert signatures == [1, 2], signatures
            (await client.delete(address)).raise_for_status()


async def script(seconds, name, *arguments):
    """Runs a script of Node's, which must succeed in time."""
    process = await asyncio.create_subprocess_exec("node", HERE / name, *arguments)
    try:
        assert await asyncio.wait_for(process.wait(), seconds) == 0
    finally:
        if process.returncode is None:
            process.kill()


async def stripe_node(service):
    """Stripe's library for Node does the same."""
    await script(SOON, "stripe.cjs", service.http, KEY)


async def standard(service):
    """The libraries of Standard Webhooks verify a thousand deliveries."""
    await standards.standard(service.program, f"{service.folder}/standard")


async def mail(service):
    """A real mail server gets what the service sends."""

    def start(folder, settings):
        os.mkdir(folder)
        return Service(service.program, folder, settings)

    await mails.mail(service, start)


class Page:
    """A page of a browser without a window."""

    def __init__(self, socket):
        self.socket, self.last = socket, 0

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, folder, address):
        process = await asyncio.create_subprocess_exec(
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
            f"--user-data-dir={folder}/browser", "about:blank",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = pathlib.Path(f"{folder}/browser/DevToolsActivePort")
            async with asyncio.timeout(SOON):
                while not port.exists() or "\n" not in port.read_text():
                    await asyncio.sleep(0.05)
                debugger = f"http://127.0.0.1:{port.read_text().splitlines()[0]}/json"
                async with httpx.AsyncClient() as client:
                    pages = []
                    while not pages:
                        pages = [page for page in (await client.get(debugger)).json() if page["type"] == "page"]
            async with websockets.connect(pages[0]["webSocketDebuggerUrl"], max_size=None) as socket:
                page = cls(socket)
                # A page of the service itself, so that it may ask it.
                await page.call("Page.navigate", url=address)
                yield page
        finally:
            process.kill()
            await process.wait()

    async def call(self, method, **params):
        self.last += 1
        await self.socket.send(json.dumps({"id": self.last, "method": method, "params": params}))
        while True:
            told = json.loads(await asyncio.wait_for(self.socket.recv(), SOON))
            if told.get("id") == self.last:
                return told["result"]

    async def run(self, script):
        told = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, script):
        """Waits until an expression is true."""
        async with asyncio.timeout(SOON):
            while not await self.run(script):
                await asyncio.sleep(0.05)


async def browser(service):
    """EventSource and WebSocket with tickets. A reconnect before the first match loses nothing."""
    async with Page.open(service.folder, f"{service.http}/v1") as page:
        await page.until("location.pathname === '/v1'")
        tickets = [await service.ticket() for _ in range(3)]
        await page.run((HERE / "page.js").read_text())
        await page.run(f"follow('busy', '{stream(service, 'BUSY')}&ticket={tickets[0]}')")
        await page.run(f"follow('quiet', '{stream(service, 'QUIET')}&ticket={tickets[1]}')")
        await page.run(f"socket('{service.socket}?ticket={tickets[2]}', {json.dumps(subscribe('BUSY'))})")
        await page.until("got.busy.cursors > 0 && got.quiet.cursors > 0 && got.socket.ops.includes('subscribed')")
        made = [await service.post("BUSY"), await service.post("BUSY")]
        await page.until("got.busy.events.length === 2 && got.socket.events.length === 2")
        # The stream that has seen no event yet must resume too.
        service.kill()
        service.start()
        made.append(await service.post("BUSY"))
        quiet = await service.post("QUIET")
        await page.until("got.busy.events.length >= 3 && got.quiet.events.length >= 1")
        got = await page.run("got")
        assert got["busy"]["events"] == made and got["quiet"]["events"] == [quiet], got
        assert got["busy"]["messages"] == got["quiet"]["messages"] == 0, got
        assert got["socket"]["events"] == made[:2] and got["socket"]["code"] == 1006, got


async def console(service):
    """People in Chromium, from the set-up link and from sign-up on; axe-core looks at every page."""
    folder = f"{service.folder}/console"
    os.mkdir(folder)
    own = await asyncio.to_thread(Service, service.program, folder)
    try:
        link = pathlib.Path(own.ready["setup_link_file"]).read_text().strip()
        path = "/console/links/" + link.rsplit("/", 1)[1]
        await script(CONSOLE_SOON, "console.cjs", own.http, path)
        log = pathlib.Path(f"{folder}/log").read_text()
        assert path.rsplit("/", 1)[1] not in log and "ses_usr_" not in log
    finally:
        own.kill()


async def docs(service):
    """A reader in Chromium: every page of the documentation, and a request tried in the reference."""
    await script(CONSOLE_SOON, "docs.cjs", service.http, KEY)


async def looks(service):
    """Pages in both themes and at three widths, compared with the pictures in `looks/`. UPDATE_LOOKS=1 makes them anew."""
    await script(CONSOLE_SOON, "looks.cjs", service.http)


async def receipts_python(service):
    """An implementation of the formats in Python makes the test vectors of receipts, and judges them and a receipt."""
    receipts.python()
    await receipts.served(service)


async def receipts_go(service):
    """Go's modules for signed notes and for trees judge the test vectors and a receipt."""
    await receipts.go(service)


async def receipts_tlog(service):
    """The same by a package of Python, which also builds the tree from the tiles."""
    await receipts.tlog(service)


async def receipts_page(service):
    """The page that checks receipts judges the vectors and a receipt in Chromium, also from a disk without network."""
    file, *_ = await receipts.live(service)
    await script(CONSOLE_SOON, "receipts.cjs", service.http, receipts.VECTORS, file)


async def sdk_page(service):
    """The SDK for TypeScript in Chromium, on a page of another origin."""
    await script(CONSOLE_SOON, "sdk.cjs", service.http, KEY, os.environ["SDK_TYPESCRIPT"])


async def mcp_python(service):
    """The Python client of MCP uses every tool, over HTTP and over stdin and stdout."""
    await agents.mcp_python(service)


async def mcp_inspector(service):
    """The inspector of MCP lists the tools and calls one."""
    await agents.mcp_inspector(service)


async def archive_folder(service):
    """duckdb, pyarrow and polars count in the files of each day what the API lists."""
    await archive.agrees(service)


async def archive_s3(service):
    """The same from a bucket, and a bucket that is not there."""
    await archive.from_bucket(service)


async def archive_changes(service):
    """The same of live data that was edited and deleted, and came late."""
    await archive.after_changes(service)


async def in_turn(names, service):
    for name in names:
        begun = time.monotonic()
        await globals()[name](service)
        print(f"clients: {name} ok, {time.monotonic() - begun:.0f} s", flush=True)


async def main():
    program, *names = sys.argv[1:]
    # It has a service of its own, and waits for most of its minutes.
    beside = [name for name in names if name == "console"]
    with tempfile.TemporaryDirectory() as folder:
        service = Service(program, folder)
        try:
            async with asyncio.TaskGroup() as turns:
                turns.create_task(in_turn(beside, service))
                turns.create_task(in_turn([name for name in names if name not in beside], service))
        finally:
            service.kill()
    print(f"{len(names)} passed, 0 failed")


asyncio.run(main())

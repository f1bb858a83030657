"""balancer.py PROGRAM HAPROXY GRPCURL DEPLOY COMPOSE FOLDER

The balancer of deploy/haproxy.cfg, run by the real HAProxy before two edges and a core with the settings of the compose file.
Addresses, the folder of TLS and the store are others; all else is as it is."""

import asyncio
import collections
import contextlib
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import time

import httpx
import httpx_sse
import websockets

PROGRAM, HAPROXY, GRPCURL = sys.argv[1:4]
DEPLOY, COMPOSE, FOLDER = map(pathlib.Path, sys.argv[4:])
KEY = "svc_test_Balancer0123456789ABCDEFGHIJKLMNopqrstuv"
AUTHORIZATION = {"authorization": f"Bearer {KEY}"}
# Longest wait for one thing to happen.
SOON = 20
# A stream that is not held back brings an event in much less.
AT_ONCE = 5
# As docker waits for a container that is to stop.
GRACE = 25
SERVICES = json.loads(COMPOSE.read_text())["services"]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def here(text):
    """The same with the files of TLS where they are."""
    return text.replace("/run/secrets/", f"{FOLDER}/tls/")


class Role:
    """A role's process, with the settings of a service of the compose file, except those for its place."""

    def __init__(self, service, **place):
        given = {name: here(value) for name, value in SERVICES[service]["environment"].items()}
        self.service, self.settings = service, given | place
        self.log = open(FOLDER / f"{service}.log", "a")
        self.process = subprocess.Popen(
            [PROGRAM, *SERVICES[service]["command"]], env=self.settings, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        line = self.process.stdout.readline()
        assert line, f"{service} did not become ready: {(FOLDER / f'{service}.log').read_text()[-2000:]}"
        self.ready = json.loads(line)

    def port(self, name):
        return int(self.ready[name].rpartition(":")[2])

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Balancer:
    """HAProxy with the file of the folder, at other addresses."""

    def __init__(self, servers, certificate=None):
        self.ports = {port: free_port() for port in ("8080", "8443", "50051", "8404")}
        text = (DEPLOY / "haproxy.cfg").read_text()
        text = re.sub(r"bind :(\d+)", lambda found: f"bind 127.0.0.1:{self.ports[found[1]]}", text)
        text = here(text.replace("/certificates/", f"{FOLDER}/"))
        # It does not start where the limit of open files is lower.
        text = text.replace("maxconn 40000", "maxconn 1000")

        def server(found):
            port, ops = servers[found[1]]
            return f"server {found[1]} 127.0.0.1:{port}" + (found[2] or f" port {ops}")

        text, number = re.subn(r"server (\S+) \1:\d+( track \S+)?", server, text)
        assert number == 8, text
        self.file = FOLDER / "haproxy.cfg"
        self.file.write_text(text)
        self.log = open(FOLDER / "haproxy.log", "a")
        environment = dict(os.environ, **SERVICES["balancer"]["environment"])
        if certificate:
            environment.update(BALANCER_CERTIFICATE=certificate, SVC_PUBLIC_URL=self.url("8443", "https"))
        command = [HAPROXY, "-db", "-f", self.file]
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=self.log)

    def url(self, port, scheme="http"):
        return f"{scheme}://127.0.0.1:{self.ports[port]}"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


async def eventually(what, probe):
    deadline = time.monotonic() + SOON
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if (found := await probe()) is not None:
                return found
        assert time.monotonic() < deadline, f"{what}: not within {SOON} s"
        await asyncio.sleep(0.05)


async def post(client, text):
    answer = await client.post("/v1/test/theses", json={"handle": "writer", "token": "BALANCED", "text": text})
    assert answer.status_code == 201, answer.text
    return answer.json()["event"]["id"]


class Stream:
    """Follows the stream of theses, and comes back with its cursor whenever it ends."""

    def __init__(self, client):
        self.client, self.seen, self.opened, self.cursor = client, [], 0, None
        self.task = asyncio.create_task(self.follow())

    async def follow(self):
        while True:
            headers = {"last-event-id": self.cursor} if self.cursor else {}
            stream = httpx_sse.aconnect_sse(
                self.client, "GET", "/v1/events/stream?types=thesis.created&token=BALANCED", headers=headers
            )
            with contextlib.suppress(httpx.TransportError):
                async with stream as source:
                    async for event in source.aiter_sse():
                        self.opened += event.event == "stream.cursor"
                        self.cursor = event.id or self.cursor
                        if event.event == "thesis.created":
                            self.seen.append(json.loads(event.data)["id"])

    async def is_open(self, times=1):
        await eventually(f"stream opened {times} times", self.probe(lambda: self.opened >= times))

    async def has(self, events, within):
        begun = time.monotonic()
        await eventually(f"{events}, seen {self.seen}", self.probe(lambda: len(self.seen) >= len(events)))
        assert self.seen == events and time.monotonic() - begun < within, (self.seen, events)

    @staticmethod
    def probe(holds):
        async def look():
            return holds() or None

        return look


async def web_socket(url, client, tls=None):
    """A WebSocket passes, and an event at once."""
    async with websockets.connect(url + "/v1/stream", additional_headers=AUTHORIZATION, ssl=tls) as ws:
        assert json.loads(await asyncio.wait_for(ws.recv(), SOON))["op"] == "welcome"
        wish = {"op": "subscribe", "sub": "s", "filters": {"token": ["BALANCED"]}, "types": ["thesis.created"]}
        await ws.send(json.dumps(wish))
        assert json.loads(await asyncio.wait_for(ws.recv(), SOON))["op"] == "subscribed"
        event = await post(client, "over a WebSocket")
        told = json.loads(await asyncio.wait_for(ws.recv(), AT_ONCE))
        assert told["event"]["id"] == event, told
        return event


def grpc(address, *transport):
    """A call and the beginning of a stream pass over gRPC, and no internal service is there, even for the service token."""

    def call(method, request, *more):
        command = [GRPCURL, *transport, *more, "-H", f"authorization: Bearer {KEY}", "-d", json.dumps(request)]
        command += [address, method]
        return subprocess.run(command, capture_output=True, text=True, timeout=SOON)

    listed = call("thesis.v1.ThesisService/ListTheses", {"limit": 1})
    assert listed.returncode == 0 and json.loads(listed.stdout)["data"], listed.stderr + listed.stdout
    stream = call("thesis.v1.EventService/Subscribe", {}, "-max-time", "2")
    assert "heartbeat" in stream.stdout, stream.stderr + stream.stdout
    token = f"x-service-token: {SERVICES['core-1']['environment']['SVC_SERVICE_TOKEN']}"
    listed = subprocess.run(
        [GRPCURL, *transport, "-H", token, address, "list"], capture_output=True, text=True, timeout=SOON, check=True
    ).stdout.split()
    assert "thesis.v1.ThesisService" in listed and "thesis.v1.AdminService" not in listed, listed
    # The core itself would answer 200 with a status of gRPC.
    authority = transport[1] if "-cacert" in transport else None
    url = f"{'https' if authority else 'http'}://{address}/thesis.v1.AdminService/ListOrganizations"
    headers = {"content-type": "application/grpc-web+proto"}
    answer = httpx.post(url, content=bytes(5), headers=headers, verify=authority or True, timeout=SOON)
    assert answer.status_code == 404, answer.headers
    # The balancer publishes each service that the core shows.
    published = (DEPLOY / "haproxy.cfg").read_text()
    assert [service for service in listed if f" /{service}/" not in published] == []


async def addresses(balancer, core):
    """Failures count for the client's address, whatever it says itself."""
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(base_url=balancer.url("8080"), transport=transport, timeout=SOON) as stranger:
        for _ in range(25):
            answer = await stranger.get(
                "/v1/me", headers={"authorization": "Bearer svc_test_wrong", "x-forwarded-for": "203.0.113.9"}
            )
            assert answer.status_code in (401, 429), answer.text
    environment = core.settings | {"SVC_CORE_URL": core.ready["internal"]}

    async def listed():
        told = subprocess.run(
            [PROGRAM, "admin", "--json", "abuse", "list"], env=environment, capture_output=True, text=True, check=True
        ).stdout
        return [row["address"] for row in json.loads(told)["data"]] or None

    assert await eventually("the failures are listed", listed) == ["127.0.0.2"]


async def leaving(balancer, edges, client, streams, before):
    """An edge that stops under load costs no request and no event."""
    statuses, done = collections.Counter(), asyncio.Event()

    async def read(fresh):
        # A connection of its own for each request, or one for all.
        headers = AUTHORIZATION | ({"connection": "close"} if fresh else {})
        async with httpx.AsyncClient(base_url=balancer.url("8080"), headers=headers, timeout=SOON) as reader:
            while not done.is_set():
                try:
                    statuses[(await reader.get("/v1/theses?limit=1")).status_code] += 1
                except httpx.HTTPError as error:
                    statuses[repr(error)] += 1
                await asyncio.sleep(0.02)

    readers = [asyncio.create_task(read(number % 2 == 0)) for number in range(6)]
    events, stopped, begun = list(before), edges[0].process, time.monotonic()
    stopped.terminate()
    while stopped.poll() is None:
        assert time.monotonic() - begun < GRACE, "the edge does not end in time"
        events.append(await post(client, f"meanwhile {len(events)}"))
        await asyncio.sleep(0.1)
    lasted = time.monotonic() - begun
    events.append(await post(client, "afterwards"))
    for stream in streams:
        await stream.has(events, SOON)
    done.set()
    await asyncio.gather(*readers)
    assert stopped.returncode == 0 and set(statuses) == {200} and statuses[200] > 100, (stopped.returncode, statuses)
    # Some were at the edge that left, and came back; the others stayed.
    again = sum(stream.opened > 1 for stream in streams)
    assert 0 < again < len(streams), [stream.opened for stream in streams]
    read = f"{statuses[200]} reads, {len(events)} events"
    print(f"balancer: an edge left in {lasted:.1f} s: {read}, {again} of {len(streams)} streams came back")


async def plain(balancer, core, edges):
    async with httpx.AsyncClient(base_url=balancer.url("8080"), headers=AUTHORIZATION, timeout=SOON) as client:
        await eventually("both edges are taken", ready(balancer, 'server="edge-1"', 'server="edge-2"'))
        assert (await client.get("/healthz")).status_code == 404, "the service's own answer"
        streams = [Stream(client) for _ in range(4)]
        for stream in streams:
            await stream.is_open()
        events = [await post(client, "streamed")]
        for stream in streams:
            await stream.has(events, AT_ONCE)
        events.append(await web_socket(balancer.url("8080", "ws"), client))
        grpc(f"127.0.0.1:{balancer.ports['50051']}", "-plaintext")
        await addresses(balancer, core)
        await leaving(balancer, edges, client, streams, events)
        for stream in streams:
            stream.task.cancel()
        log = (FOLDER / "haproxy.log").read_text()
        assert "/v1/" not in log and re.search(r" req_\w+$", log, re.MULTILINE), "no paths, and the ids of requests"
        # Without a core no edge is ready. The service itself says so, in its own form.
        core.process.kill()

        async def refused():
            answer = await client.get("/v1/theses")
            unready = answer.status_code == 503 and await ready(balancer, 'server="edge-2"', backend="rest")() is None
            return answer if unready else None

        answer = await eventually("the edge refuses", refused)
        assert answer.json()["error"]["code"] == "SERVICE_UNAVAILABLE" and "retry-after" in answer.headers, answer.text


def ready(balancer, *servers, backend="rest"):
    """Whether the balancer's own metrics tell these servers of a backend as up."""

    async def look():
        async with httpx.AsyncClient(timeout=SOON) as client:
            told = (await client.get(balancer.url("8404") + "/metrics")).text
        shown = re.findall(r'^haproxy_server_status\{(.*state="UP".*)\} 1$', told, re.MULTILINE)
        return all(any(f'proxy="{backend}"' in line and server in line for line in shown) for server in servers) or None

    return look


async def encrypted(balancer):
    tls = ssl.create_default_context(cafile=FOLDER / "certificate.pem")
    url = balancer.url("8443", "https")
    async with httpx.AsyncClient(base_url=url, headers=AUTHORIZATION, timeout=SOON, verify=tls) as client:
        await eventually("both edges are taken", ready(balancer, 'server="edge-1"', 'server="edge-2"'))
        plain = await client.get(balancer.url("8080") + "/v1/me?a=b")
        assert plain.status_code == 308 and plain.headers["location"] == f"{url}/v1/me?a=b", plain.headers
        stream = Stream(client)
        await stream.is_open()
        await stream.has([await web_socket(balancer.url("8443", "wss"), client, tls)], AT_ONCE)
        stream.task.cancel()
    grpc(f"127.0.0.1:{balancer.ports['50051']}", "-cacert", str(FOLDER / "certificate.pem"))


def start(stack):
    def role(service, **more):
        started = Role(service, **place, **more)
        stack.callback(started.end)
        return started

    (FOLDER / "plans.toml").write_text(
        "[plans.business]\nhistory_days = 365\nconcurrent_streams = 100\nwebhook_endpoints = 100\n"
        "requests_per_month = 1_000_000\nstandard_per_minute = 1_000_000\nheavy_per_minute = 1_000_000\n"
        "verify_per_minute = 1_000\n"
    )
    place = {f"SVC_{name}_ADDR": "127.0.0.1:0" for name in ("HTTP", "GRPC", "INTERNAL", "OPS")}
    # The client's address is another than the balancer's.
    place |= {"SVC_TRUSTED_PROXIES": "127.0.0.1/32"}
    core = role(
        "core-1", SVC_STORE="embedded", SVC_DATA_DIR=f"{FOLDER}/data", SVC_ADVERTISE_URL="",
        SVC_BOOTSTRAP_TEST_KEY=KEY, SVC_PLANS_FILE=f"{FOLDER}/plans.toml",
    )
    place |= {"SVC_CORE_URL": core.ready["internal"]}
    edges = [role("edge-1"), role("edge-2")]
    role("worker-1")
    return core, edges


def run():
    with contextlib.ExitStack() as stack:
        core, edges = start(stack)
        # One core is away: the balancer sends it nothing.
        nobody = free_port()
        servers = {"core-1": (core.port("grpc"), core.port("ops")), "core-2": (nobody, nobody)}
        servers |= {role.service: (role.port("http"), role.port("ops")) for role in edges}
        balancer = Balancer(servers, "site.pem")
        stack.callback(balancer.end)
        asyncio.run(encrypted(balancer))
        balancer = Balancer(servers)
        stack.callback(balancer.end)
        asyncio.run(plain(balancer, core, edges))


run()

"""The program as tests start it, and an endpoint for its webhooks."""

import asyncio
import contextlib
import http.server
import json
import pathlib
import queue
import signal
import subprocess
import threading

import httpx

KEY = "svc_test_Clients0123456789ABCDEFGHIJKLMNopqrstuvw"
AUTHORIZATION = {"Authorization": f"Bearer {KEY}"}


class Service:
    """The program, which can be killed and started again where it listened."""

    def __init__(self, program, folder, more=None):
        self.program, self.folder = program, folder
        self.settings = {
            "SVC_DATA_DIR": f"{folder}/data",
            "SVC_BOOTSTRAP_PLAN": "business",
            "SVC_BOOTSTRAP_TEST_KEY": KEY,
            "SVC_SANDBOX_TICK_SECONDS": "0",
            "SVC_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
            "SVC_HTTP_ADDR": "127.0.0.1:0",
            "SVC_GRPC_ADDR": "127.0.0.1:0",
            "SVC_OPS_ADDR": "127.0.0.1:0",
        } | (more or {})
        self.start()

    def start(self):
        log = open(f"{self.folder}/log", "ab")
        self.process = subprocess.Popen([self.program], env=self.settings, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert line, pathlib.Path(log.name).read_text()[-2000:]
        ready = json.loads(line)
        self.http, self.grpc, self.ready = ready["http"], ready["grpc"], ready
        for name in ("http", "grpc", "ops"):
            self.settings[f"SVC_{name.upper()}_ADDR"] = ready[name].removeprefix("http://")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def socket(self):
        return self.http.replace("http", "ws", 1) + "/v1/stream"

    async def post(self, token, text="to the moon", handle="writer"):
        """Creates a thesis; gives its event's id."""
        async with httpx.AsyncClient() as client:
            body = {"handle": handle, "token": token, "text": text}
            answer = await client.post(f"{self.http}/v1/test/theses", headers=AUTHORIZATION, json=body)
            return answer.raise_for_status().json()["event"]["id"]

    async def ticket(self):
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{self.http}/v1/stream/tickets", headers=AUTHORIZATION)
            return answer.raise_for_status().json()["ticket"]


class Delivery(http.server.BaseHTTPRequestHandler):
    """A request at a webhook's endpoint: its server keeps headers and raw body."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.deliveries.put((self.headers, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Endpoint(http.server.ThreadingHTTPServer):
    request_queue_size = 128


@contextlib.contextmanager
def endpoint():
    """A webhook's endpoint: its URL, and the deliveries that arrive."""
    with Endpoint(("127.0.0.1", 0), Delivery) as server:
        server.deliveries = queue.Queue()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", server.deliveries
        finally:
            server.shutdown()


async def break_off(port):
    """Sends an endpoint a POST that breaks off in its body, and waits until the endpoint closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nHost: endpoint\r\nContent-Length: 9\r\n\r\nhalf")
    writer.write_eof()
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()

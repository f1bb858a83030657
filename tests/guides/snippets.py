"""Runs a snippet as its reader would, and says what went wrong."""

import asyncio
import dataclasses
import os
import pathlib
import queue
import signal
import socket

import httpx
from pages import Snippet, Wrong, rust_program
from service import AUTHORIZATION, Service, break_off, endpoint

# Longest run of a snippet that ends, and longest wait for one thing to happen.
PATIENCE, SOON = 60, 30
# Longest time to compile a snippet. The first one compiles Go's own packages, too.
COMPILE = 180
# How often output is looked at, and how often a stream's event is created anew, as it may have come too early.
LOOK, AGAIN = 0.05, 1
# How long a stream goes on after it has printed an event: it may be about to write its cursor into a file.
FINISH = 0.3
# Most characters of output that are shown.
SHOWN = 4000
HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Place:
    """Where the snippets of a guide are run: their folder, the program, and variables that they see."""

    folder: pathlib.Path
    service: Service
    environment: dict[str, str]

    def beside(self, ending):
        """A file that snippets do not see."""
        return self.folder.with_name(f"{self.folder.name}.{ending}")

    @property
    def kept(self):
        """Shell variables that blocks have kept for later ones."""
        return self.beside("kept")

    @property
    def exported(self):
        """Variables that such a block has left to blocks in all languages."""
        return self.beside("env")


class Program:
    """A started snippet. Its output goes to a file, so that nothing that it leaves behind holds it up."""

    def __init__(self, process, output):
        self.process, self.path = process, output

    @classmethod
    async def start(cls, command, output, **options):
        with open(output, "wb") as file:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, process_group=0, **options
            )
        return cls(process, output)

    @property
    def output(self):
        return self.path.read_text(errors="replace")

    async def succeeds(self, within):
        """Waits for its end, which must come in time and with success."""
        try:
            code = await asyncio.wait_for(self.process.wait(), within)
        except TimeoutError:
            raise Wrong(f"it did not end within {within} s") from None
        if code != 0:
            raise Wrong(f"it ended with {code}")

    async def until(self, wanted, what):
        """Waits until something is true, while it runs."""
        try:
            async with asyncio.timeout(SOON):
                while not await wanted():
                    if self.process.returncode is not None:
                        raise Wrong(f"it ended with {self.process.returncode} before {what}")
                    await asyncio.sleep(LOOK)
        except TimeoutError:
            raise Wrong(f"{what} did not happen within {SOON} s") from None

    async def stop(self):
        """Ends it, and whatever it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        await self.process.wait()


async def run(snippet: Snippet, place: Place):
    """Runs a snippet; raises what is wrong, with its output."""
    output = place.beside(f"{snippet.line}.out")
    output.touch()
    try:
        command = await prepare(snippet, place, output)
        environment = dict(place.environment)
        if snippet.way == "server":
            await serve(place, command, output, environment)
        else:
            program = await Program.start(command, output, cwd=place.folder, env=environment)
            try:
                await (follow(program, place.service) if snippet.way == "stream" else program.succeeds(PATIENCE))
            finally:
                await program.stop()
    except (Wrong, httpx.HTTPError, queue.Empty) as wrong:
        told = output.read_text(errors="replace")
        cut = "…" if len(told) > SHOWN else ""
        what = wrong if isinstance(wrong, Wrong) else repr(wrong)
        told = f"--- snippet\n{snippet.code}--- output\n{cut}{told[-SHOWN:]}"
        raise Wrong(f"{snippet}: {what}\n{told}") from None
    if snippet.way == "keeps":
        variables = place.exported.read_text().split("\0")
        place.environment = dict(variable.split("=", 1) for variable in variables if variable)


async def prepare(snippet: Snippet, place: Place, output: pathlib.Path):
    """Writes a snippet into a file; gives the command that runs it."""
    name = f"snippet_{snippet.line}"
    if snippet.language == "go":
        return [await compiled(snippet, place, output)]
    if snippet.language == "rust":
        return [os.environ["RUST_GUIDES"], rust_program(snippet.code)]
    file = place.folder / (name + {"sh": ".sh", "python": ".py", "js": ".mjs"}[snippet.language])
    file.write_text(snippet.code)
    if snippet.language == "sh":
        script = f'[ ! -e "{place.kept}" ] || source "{place.kept}"; source "{file}"'
        if snippet.way == "keeps":
            script += f'; source "{HERE}/keep.sh" "{place.kept}" "{place.exported}"'
        return ["bash", "-euo", "pipefail", "-c", script, "bash"]
    return [{"python": "python3", "js": "node"}[snippet.language], file]


async def compiled(snippet: Snippet, place: Place, output: pathlib.Path):
    """Compiles a program in Go, in the guide's folder, whose module names what the snippets may use. Nothing is fetched."""
    source = place.folder / f"snippet_{snippet.line}"
    source.mkdir()
    (source / "main.go").write_text(snippet.code)
    binary = source / "program"
    # Paths are left out: with them, nothing in a new folder is compiled as before, and Go's cache would grow each time.
    command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", binary, f"./{source.name}"]
    compiler = await Program.start(command, output, cwd=place.folder, env=os.environ | {"GOPROXY": "off"})
    try:
        await compiler.succeeds(COMPILE)
    except Wrong as wrong:
        raise Wrong(f"the compiler did not take it: {wrong}") from None
    finally:
        await compiler.stop()
    return binary


async def follow(program: Program, service: Service):
    """A stream shows an event that is created while it is open. When it is open is not known, so there are several."""
    made, next_at = [], 0
    clock = asyncio.get_running_loop().time

    async def shown():
        nonlocal next_at
        if any(event in program.output for event in made):
            return True
        if clock() >= next_at:
            made.append(await service.post("RUN", handle="runner"))
            next_at = clock() + AGAIN
        return False

    await program.until(shown, "it printed the id of a created event")
    await asyncio.sleep(FINISH)


async def serve(place: Place, command, output: pathlib.Path, environment):
    """A receiver outlives a request that breaks off, takes a delivery as it was made, and refuses another body."""
    port = free_port()
    async with httpx.AsyncClient(timeout=SOON) as client:
        with endpoint() as (url, deliveries):
            wanted = {"url": url, "events": ["thesis.created"], "filters": {"token": ["RUN"]}}
            address = f"{place.service.http}/v1/webhooks"
            answer = await client.post(address, headers=AUTHORIZATION, json=wanted)
            webhook = answer.raise_for_status().json()
            environment |= {"PORT": str(port), "WEBHOOK_SECRET": webhook["secret"]}
            program = await Program.start(command, output, cwd=place.folder, env=environment)
            try:
                await program.until(lambda: listens(port), f"it listened on $PORT, {port}")
                try:
                    await asyncio.wait_for(break_off(port), SOON)
                except TimeoutError:
                    raise Wrong(f"it was sent a part of a request, and waited for more for {SOON} s") from None
                event, body = await place.service.post("RUN", handle="runner"), b""
                while event.encode() not in body:
                    headers, body = await asyncio.to_thread(deliveries.get, timeout=SOON)
                changed = body.replace(b"to the moon", b"to the mood")
                if changed == body:
                    raise Wrong(f"the delivery does not hold the thesis's text: {body.decode(errors='replace')}")
                await answers(client, port, headers, body, range(200, 300), "a delivery, which it must answer with 2xx")
                await answers(client, port, headers, changed, [400], "one with a changed body, which it must answer with 400")
            finally:
                await program.stop()
                (await client.delete(f"{address}/{webhook['id']}", headers=AUTHORIZATION)).raise_for_status()


async def answers(client: httpx.AsyncClient, port, headers, body, wanted, what):
    """Sends a delivery to a receiver, which must answer with a status."""
    sent = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
    try:
        answer = await client.post(f"http://127.0.0.1:{port}/", headers=sent, content=body)
    except httpx.HTTPError as error:
        raise Wrong(f"it was sent {what}: {error!r}") from None
    if answer.status_code not in wanted:
        raise Wrong(f"it was sent {what}; its answer was {answer.status_code} {answer.text[:500]}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


async def listens(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True

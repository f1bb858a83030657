"""Snippets of the guides against the running program. `run` beside this file says how, and installs what they need."""

import asyncio
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "clients"))

import pages  # noqa: E402
import snippets  # noqa: E402
from service import KEY, Service  # noqa: E402

# Guides whose snippets are run at once.
AT_ONCE = 3
# Folder for the program, which no guide is named like.
PROGRAMS = ".programs"
# What snippets see of the environment of this test.
SEEN = ("LANG", "TMPDIR")


def environment(service, folder, program_folder):
    """Variables that guides promise, and what makes their programs run here."""
    return {name: os.environ[name] for name in SEEN if name in os.environ} | {
        "PATH": f"{program_folder}:{os.environ['PATH']}",
        "HOME": str(folder),
        "API_URL": service.http,
        "API_KEY": KEY,
        "GRPC_ADDR": service.grpc.removeprefix("http://"),
        "PROTO": str(HERE.parents[1] / "proto"),
        # Lines appear at once, as in a terminal.
        "PYTHONUNBUFFERED": "1",
        # The SDK, as if it were installed.
        "PYTHONPATH": str(HERE.parents[1] / "sdk/python/src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def prepare(scratch, program, languages):
    """Lays out what the snippets of all guides use: the program, and Node's packages."""
    (scratch / PROGRAMS).mkdir()
    (scratch / PROGRAMS / "trade-thesis").symlink_to(program)
    # Node looks for packages in the folders above a program.
    if "js" in languages:
        (scratch / "node_modules").symlink_to(os.environ["NODE_MODULES"])


async def started(program, folder):
    """Starts the program. The thread that does so cannot be cancelled, so what it has started is ended then."""
    starting = asyncio.create_task(asyncio.to_thread(Service, program, folder, {"SVC_SANDBOX_TICK_SECONDS": "5"}))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        (await starting).kill()
        raise


async def walk(path, scratch, program, languages):
    """Runs a guide's snippets in their order; gives how many passed, and what is wrong."""
    began = time.monotonic()
    folder, own = scratch / path.stem, scratch / f"{path.stem}.service"
    if "go" in languages:
        # The folder is a module in Go, so that snippets can import what they generate.
        shutil.copytree(os.environ["GO_MODULES"], folder)
    else:
        folder.mkdir()
    own.mkdir()
    service = await started(program, own)
    passed, wrong = 0, []
    try:
        guide = pages.read(path, service.http)
        wrong += guide.wrong
        place = snippets.Place(folder, service, environment(service, folder, scratch / PROGRAMS))
        for snippet in guide.snippets:
            # What a page keeps is for all its languages.
            if snippet.language not in languages and snippet.way != "keeps":
                continue
            try:
                await snippets.run(snippet, place)
                passed += 1
            except pages.Wrong as error:
                wrong.append(str(error))
            except asyncio.CancelledError:
                print(f"\n=== {snippet}: it was stopped\n--- snippet\n{snippet.code}", flush=True)
                raise
    finally:
        service.kill()
    told = f"{passed} snippets, {time.monotonic() - began:.1f} s"
    print(f"guides: {path.stem} {'failed' if wrong else 'ok'} ({told})", flush=True)
    return passed, wrong


async def main():
    program, folder, *languages = sys.argv[1:]
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    # Long ones first, so that none is left alone at the end.
    paths = sorted(pathlib.Path(folder).glob("*.md"), key=lambda path: -path.stat().st_size)
    if one := os.environ.get("TEST_GUIDE"):
        paths = [path for path in paths if path.stem == one]
    if one := os.environ.get("TEST_LANGUAGE"):
        languages = [language for language in languages if language == one]
    if not paths or not languages:
        sys.exit("there is no such guide or language")
    turns = asyncio.Semaphore(AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="trade-thesis-guides.") as scratch:
        scratch = pathlib.Path(scratch)
        prepare(scratch, program, languages)

        async def walked(path):
            async with turns:
                return await walk(path, scratch, program, languages)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(walked(path)) for path in paths]
    results = [task.result() for task in tasks]
    wrong = [text for _, texts in results for text in texts]
    for text in wrong:
        print(f"\n=== {text}")
    print(f"{sum(passed for passed, _ in results)} passed, {len(wrong)} failed")
    sys.exit(bool(wrong))


try:
    asyncio.run(main())
except asyncio.CancelledError:
    sys.exit("the guides were stopped")

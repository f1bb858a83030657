"""The archive as analysts read it: the counts of duckdb, pyarrow and polars over the files equal those of the API."""

import asyncio
import collections
import contextlib
import datetime
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

import duckdb
import httpx
import polars
import pyarrow.compute
import pyarrow.parquet

import history
from service import AUTHORIZATION, Service

# Longest wait for the files of the sandbox's days, which the service builds by itself.
SOON = 200
KINDS = ("theses", "events", "token_hours", "changes")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "clients", "AWS_SECRET_ACCESS_KEY": "clients", "AWS_REGION": "us-east-1"}


async def every(client, path, **query):
    """All rows of a list."""
    rows, cursor = [], {}
    while True:
        page = (await client.get(path, params=query | cursor)).raise_for_status().json()
        rows += page["data"]
        if not page["has_more"]:
            return rows
        cursor = {"cursor": page["next_cursor"]}


def counts(path):
    """The number of rows, by three readers."""
    by_duckdb = duckdb.sql(f"select count(*) from '{path}'").fetchall()[0][0]
    return {by_duckdb, pyarrow.parquet.read_table(path).num_rows, len(polars.read_parquet(path))}


async def check_day(client, folder, date, files):
    """Downloads the files of a day, and compares them with the API."""
    assert sorted(files) == sorted(KINDS), (date, sorted(files))
    paths = {}
    for kind, file in files.items():
        content = (await client.get(file["url"])).raise_for_status().content
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"]), file
        part = await client.get(file["url"], headers={"Range": "bytes=4-11"})
        assert (part.status_code, part.content) == (206, content[4:12])
        paths[kind] = f"{folder}/{date}-{kind}.parquet"
        pathlib.Path(paths[kind]).write_bytes(content)
        assert counts(paths[kind]) == {file["rows"]}, file
    window = {"created_after": f"{date}T00:00:00Z", "created_before": f"{date}T23:59:59.999Z", "limit": 100}
    theses = {thesis["id"]: thesis for thesis in await every(client, "/v1/theses", **window)}
    in_file = {row["id"]: row for row in pyarrow.parquet.read_table(paths["theses"]).to_pylist()}
    assert sorted(in_file) == sorted(theses), date
    for thesis_id, row in in_file.items():
        thesis = theses[thesis_id]
        assert (row["text"], row["handle"]) == (thesis["text"], thesis["profile"]["handle"])
    events = {event["id"] for event in await every(client, "/v1/events", **window)}
    assert set(polars.read_parquet(paths["events"])["id"]) == events, date
    summed = duckdb.sql(f"select coalesce(sum(theses), 0) from '{paths['token_hours']}'").fetchall()[0][0]
    assert summed == len(theses), date


async def whole_days(client):
    """The files of the sandbox's days by date and kind, once six days or more are there and none is under way."""
    async with asyncio.timeout(SOON):
        while True:
            days = {}
            for file in await every(client, "/v1/archive", limit=100):
                days.setdefault(file["date"], {})[file["kind"]] = file
            if len(days) >= 6 and all(len(files) == len(KINDS) for files in days.values()):
                return days
            await asyncio.sleep(0.5)


async def agrees(service):
    """Every day of the sandbox. The service has no ticker, so its earlier days stay as they are."""
    async with httpx.AsyncClient(base_url=service.http, headers=AUTHORIZATION, timeout=30) as client:
        days = await whole_days(client)
        with tempfile.TemporaryDirectory() as folder:
            for date, of_day in days.items():
                await check_day(client, folder, date, of_day)


@contextlib.contextmanager
def bucket_server(folder):
    """A server of S3; gives its address."""
    program = pathlib.Path(sys.executable).parent / "moto_server"
    log = open(f"{folder}/moto.log", "ab")
    server = subprocess.Popen([program, "-H", "127.0.0.1", "-p", "0"], stdout=log, stderr=log, env=os.environ)
    try:
        yield server, f"{folder}/moto.log"
    finally:
        server.kill()
        server.wait()


async def address_of(server, log):
    """The address at which the server listens, once it says so."""
    async with asyncio.timeout(SOON):
        while True:
            for line in pathlib.Path(log).read_text().splitlines():
                if "Running on http://" in line:
                    return line.split("Running on ", 1)[1].split()[0]
            assert server.poll() is None, pathlib.Path(log).read_text()
            await asyncio.sleep(0.1)


async def from_bucket(service):
    """A service whose archive lies in a bucket of a server that speaks S3, addressed by path."""
    folder = f"{service.folder}/s3"
    os.mkdir(folder)
    with bucket_server(folder) as (server, log):
        address = await address_of(server, log)
        settings = CREDENTIALS | {
            "SVC_ARCHIVE_URL": "s3://archive/files",
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
        }
        own = await asyncio.to_thread(Service, service.program, folder, settings)
        try:
            # The bucket is missing: a build fails and says so, and nothing is listed.
            built = await asyncio.create_subprocess_exec(
                service.program, "admin", "--json", "archive", "build", "--date", yesterday(), "--dataset", "sandbox",
                env=own.settings | {"SVC_CORE_URL": own.grpc}, stdout=subprocess.PIPE,
            )
            output, _ = await built.communicate()
            assert built.returncode != 0 and b"SERVICE_UNAVAILABLE" in output, output
            async with httpx.AsyncClient() as client:
                listed = await client.get(f"{own.http}/v1/archive", headers=AUTHORIZATION)
                assert listed.raise_for_status().json()["data"] == []
                (await client.put(f"{address}/archive")).raise_for_status()
            await agrees(own)
        finally:
            own.kill()


def present(folder, date, later):
    """The ids of the theses of a day at present: those of its file, with the changes of later days. By three readers."""
    theses, changes = f"{folder}/{date}-theses.parquet", [f"{folder}/{day}-changes.parquet" for day in later]
    by_duckdb = {row[0] for row in duckdb.sql(f"select id from '{theses}'").fetchall()}
    by_pyarrow = set(pyarrow.parquet.read_table(theses)["id"].to_pylist())
    by_polars = set(polars.read_parquet(theses)["id"])
    for path in changes:
        rows = f"select thesis_id from '{path}' where cast(created_at as date) = '{date}' and change = "
        late, gone = (duckdb.sql(f"{rows} '{change}'").fetchall() for change in ("late", "deleted"))
        by_duckdb = (by_duckdb | {row[0] for row in late}) - {row[0] for row in gone}
        table = pyarrow.parquet.read_table(path)
        days = pyarrow.compute.strftime(table["created_at"], format="%Y-%m-%d")
        table = table.filter(pyarrow.compute.equal(days, date))
        late, gone = (
            set(table.filter(pyarrow.compute.equal(table["change"], change))["thesis_id"].to_pylist())
            for change in ("late", "deleted")
        )
        by_pyarrow = (by_pyarrow | late) - gone
        of_day = polars.read_parquet(path).filter(polars.col("created_at").dt.strftime("%Y-%m-%d") == date)
        late, gone = (set(of_day.filter(polars.col("change") == change)["thesis_id"]) for change in ("late", "deleted"))
        by_polars = (by_polars | late) - gone
    return by_duckdb, by_pyarrow, by_polars


def present_texts(folder, date, later):
    """The texts of the theses of a day at present, by id."""
    rows = pyarrow.parquet.read_table(f"{folder}/{date}-theses.parquet").to_pylist()
    texts = {row["id"]: row["text"] for row in rows}
    for day in later:
        for row in pyarrow.parquet.read_table(f"{folder}/{day}-changes.parquet").to_pylist():
            if row["created_at"].date().isoformat() == date and row["change"] == "deleted":
                del texts[row["thesis_id"]]
            elif row["created_at"].date().isoformat() == date:
                texts[row["thesis_id"]] = row["text"]
    return texts


async def admin(service, *words):
    """Runs a command of the operator; gives its output."""
    command = [service.program, "admin", "--json", *words]
    settings = service.settings | {"SVC_CORE_URL": service.grpc}
    ran = await asyncio.create_subprocess_exec(*command, env=settings, stdout=subprocess.PIPE)
    output, _ = await ran.communicate()
    assert ran.returncode == 0, output
    return output


async def after_changes(service):
    """Live data of several days with late posts, edits and deletions, of the same days and of earlier ones."""
    folder = f"{service.folder}/live"
    os.mkdir(folder)
    past = history.History(today())
    export = f"{folder}/export.jsonl"
    pathlib.Path(export).write_bytes(past.export())
    key = "svc_live_Clients0123456789ABCDEFGHIJKLMNopqrstuvw"
    own = await asyncio.to_thread(Service, service.program, folder, {"SVC_BOOTSTRAP_LIVE_KEY": key})
    headers = {"Authorization": f"Bearer {key}"}
    try:
        await admin(own, "import", "--dataset", "live", "--from", export)
        for date in past.dates:
            await admin(own, "archive", "build", "--date", date, "--dataset", "live")
        async with httpx.AsyncClient(base_url=own.http, headers=headers, timeout=30) as client:
            files = collections.defaultdict(dict)
            for file in await every(client, "/v1/archive", limit=100):
                files[file["date"]][file["kind"]] = file
            # The service builds a later day by itself when its time comes while this runs.
            assert [date for date in sorted(files) if date <= past.dates[-1]] == past.dates, sorted(files)
            for date in past.dates:
                for kind in KINDS:
                    file = files[date][kind]
                    content = (await client.get(file["url"])).raise_for_status().content
                    path = f"{folder}/{date}-{kind}.parquet"
                    pathlib.Path(path).write_bytes(content)
                    assert counts(path) == {file["rows"]}, file
            for date in past.dates:
                await check_changed_day(client, folder, date, [day for day in past.dates if day > date])
        changed = set(polars.read_parquet(f"{folder}/*-changes.parquet")["change"])
        assert changed == {"late", "edited", "deleted"}, changed
    finally:
        own.kill()


async def check_changed_day(client, folder, date, later):
    """Compares a day's files, and the changes of later days, with the API."""
    window = {"created_after": f"{date}T00:00:00Z", "created_before": f"{date}T23:59:59.999Z", "limit": 100}
    theses = {thesis["id"]: thesis["text"] for thesis in await every(client, "/v1/theses", **window)}
    for ids in present(folder, date, later):
        assert ids == set(theses), date
    assert present_texts(folder, date, later) == theses, date
    events = {event["id"] for event in await every(client, "/v1/events", **window)}
    assert set(polars.read_parquet(f"{folder}/{date}-events.parquet")["id"]) == events, date
    summed = duckdb.sql(f"select sum(theses) from '{folder}/{date}-token_hours.parquet'").fetchall()[0][0]
    assert summed == len(polars.read_parquet(f"{folder}/{date}-theses.parquet")), date


def today():
    """The date of the day after the last one whose files can be built: five minutes after midnight, and some more."""
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=6)).date()


def yesterday():
    """The date of the last day whose files can be built."""
    return (today() - datetime.timedelta(days=1)).isoformat()

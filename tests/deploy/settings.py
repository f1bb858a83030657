"""settings.py PROGRAM DEPLOY COMPOSE KUSTOMIZED

Every setting that a file in the folder DEPLOY names exists, and the program takes every value that they give: those of the
loaded compose file, of the manifests as kustomize renders them, of the image and of the units. Prometheus asks at the ops port of
the image."""

import json
import pathlib
import re
import subprocess
import sys

import yaml

PROGRAM, DEPLOY, COMPOSE, KUSTOMIZED = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
NAME = re.compile(r"\b(?:SVC(?:_[A-Z0-9]+)+|[A-Z]+(?:_[A-Z]+)*_ENABLED)\b")
# Not a setting of the running program: the build takes it.
BUILD = {"SVC_BUILD_COMMIT"}


def unknown():
    """Names that `--help` does not tell."""
    told = subprocess.run([PROGRAM, "--help"], env={}, capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"\[env: (\w+)\]", told)) | BUILD
    assert len(known) > 20, told
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    assert len(files) > 10, files
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for name in set(NAME.findall(line)) - known:
                yield f"{path.relative_to(DEPLOY)}:{number}: {name} is no setting of the program"


def environments():
    """Where settings are given, and which."""
    for name, service in json.loads(COMPOSE.read_text())["services"].items():
        yield f"compose.yaml, {name}", service.get("environment") or {}
    manifests = list(yaml.safe_load_all(KUSTOMIZED.read_text()))
    maps = {found["metadata"]["name"]: found["data"] for found in manifests if found["kind"] == "ConfigMap"}
    for found in manifests:
        for container in found.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            named = [source["configMapRef"]["name"] for source in container["envFrom"] if "configMapRef" in source]
            own = {variable["name"]: variable["value"] for variable in container.get("env", []) if "value" in variable}
            given = {key: value for name in named for key, value in maps[name].items()} | own
            # What Kubernetes puts in.
            given = {key: value.replace("$(POD_NAME)", "core-0") for key, value in given.items()}
            yield f"kubernetes, {container['name']}", given
    image = re.search(r"^ENV (?:.*\\\n)*.*$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[0]
    yield "Dockerfile", dict(re.findall(r"(SVC_\w+)=(\S+)", image))
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        given = re.findall(r"^Environment=(SVC_\w+)=(.*)$", unit.read_text(), re.MULTILINE)
        assert given, unit
        yield unit.name, {name: value.replace("%i", "core") for name, value in given}


def refused():
    """What the program does not take."""
    for where, given in environments():
        settings = {name: value for name, value in given.items() if NAME.fullmatch(name) and value is not None}
        assert settings or where.endswith("balancer") or "scylla" in where, where
        # It reads all settings, and then finds nobody there.
        settings["SVC_OPS_ADDR"] = "127.0.0.1:9"
        told = subprocess.run([PROGRAM, "health"], env=settings, capture_output=True, text=True).stderr
        if "127.0.0.1:9 cannot be reached" not in told:
            yield f"{where}: {told.strip()}"


def ports():
    """Addresses in the files of Prometheus with another port than the image's for health and metrics."""
    ops = re.search(r"SVC_OPS_ADDR=\S+:(\d+)", (DEPLOY / "Dockerfile").read_text())[1]
    found = 0
    for path in sorted((DEPLOY / "prometheus").glob("*.yaml")):
        for address, port in re.findall(r"\b((?:core|edge|worker)-\d+:(\d+))", path.read_text()):
            found += 1
            if port != ops:
                yield f"prometheus/{path.name}: {address}, but the image has metrics at port {ops}"
    assert found > 10, found


problems = [*unknown(), *refused(), *ports()]
print(*problems, sep="\n")
sys.exit(len(problems) > 0)

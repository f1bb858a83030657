"""Deliveries as the stock libraries of Standard Webhooks verify them: a thousand, through two rotations of the secret."""

import asyncio
import base64
import json
import os
import pathlib
import re

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from service import AUTHORIZATION, Service, endpoint

# Longest wait for one thing to happen.
SOON = 60
HERE = pathlib.Path(__file__).parent
# Theses that are posted at a time, and how often before each rotation.
BATCH, BATCHES = 20, 17
HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"]
WRONG = "whsec_" + base64.b64encode(bytes(30)).decode()


def unlimited(program, folder):
    """A service on which a project may send a thousand requests a minute and more."""
    os.mkdir(folder)
    plans = (HERE / "../../src/plans.toml").read_text()
    file = pathlib.Path(folder, "plans.toml")
    file.write_text(re.sub("standard_per_minute = .*", "standard_per_minute = 1_000_000", plans))
    return Service(program, folder, {"SVC_PLANS_FILE": str(file)})


def changed(body, number):
    """A body with another character in one place, which is a later one for each number."""
    places = (place % len(body) for place in range(number, number + len(body)))
    place = next(place for place in places if body[place] < 128)
    return body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]


async def deliveries_of(service):
    """The public key of a webhook and its deliveries, with the secrets that are valid for each."""
    async with httpx.AsyncClient(base_url=service.http, headers=AUTHORIZATION, timeout=SOON) as client:

        async def post(path, body):
            return (await client.post(path, json=body)).raise_for_status().json()

        with endpoint() as (url, arrived):
            given = {"url": url, "events": ["thesis.created"], "filters": {"token": ["STANDARD"]}}
            webhook = await post("/v1/webhooks", given)
            secrets, deliveries = [webhook["secret"]], []
            for _ in range(3):
                for _ in range(BATCHES):
                    theses = [{"handle": "writer", "token": "STANDARD", "text": f"déjà vu {n} 🚀"} for n in range(BATCH)]
                    await asyncio.gather(*(post("/v1/test/theses", thesis) for thesis in theses))
                    for _ in theses:
                        headers, body = await asyncio.to_thread(arrived.get, timeout=SOON)
                        deliveries.append(
                            {
                                "headers": {name: headers[name] for name in HEADERS},
                                "body": body.decode(),
                                "changed": changed(body, len(deliveries)).decode(),
                                "secrets": secrets[:2],
                                "wrong": [WRONG, *secrets[2:]],
                            }
                        )
                rotated = await post(f"/v1/webhooks/{webhook['id']}/rotate-secret", {})
                assert rotated["public_key"] == webhook["public_key"]
                secrets.insert(0, rotated["secret"])
            return {"public_key": webhook["public_key"], "deliveries": deliveries}


def verifies(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers, json_parse=False)
        return True
    except WebhookVerificationError:
        return False


def key_verifies(public_key, headers, body):
    """Whether the `v1a` of a delivery is right, by the package cryptography."""
    signatures = [part.split(",") for part in headers["webhook-signature"].split(" ")]
    [signature] = [text for version, text in signatures if version == "v1a"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}".encode()
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))
    try:
        key.verify(base64.b64decode(signature), signed)
        return True
    except InvalidSignature:
        return False


def python(told):
    for delivery in told["deliveries"]:
        headers, body, other = delivery["headers"], delivery["body"], delivery["changed"]
        for secret in delivery["secrets"]:
            assert verifies(secret, headers, body) and not verifies(secret, headers, other), delivery
        assert not any(verifies(secret, headers, body) for secret in delivery["wrong"]), delivery
        assert key_verifies(told["public_key"], headers, body), delivery
        assert not key_verifies(told["public_key"], headers, other), delivery


async def standard(program, folder):
    """The libraries of Python and of the languages in STANDARD_WEBHOOKS judge the same deliveries."""
    service = await asyncio.to_thread(unlimited, program, folder)
    try:
        told = await deliveries_of(service)
    finally:
        service.kill()
    assert len(told["deliveries"]) >= 1000
    file = f"{folder}/deliveries.json"
    pathlib.Path(file).write_text(json.dumps(told))
    python(told)
    for command in os.environ.get("STANDARD_WEBHOOKS", "").splitlines():
        process = await asyncio.create_subprocess_exec(*command.split(" "), file)
        assert await asyncio.wait_for(process.wait(), SOON) == 0, command

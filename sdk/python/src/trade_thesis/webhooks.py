"""Checks the deliveries of webhooks.

`verify` takes the body as it arrived, byte for byte, with its headers and the secrets of the webhook:

    event = webhooks.verify(request.body, request.headers, secret)

The service signs each delivery in two ways, and either is enough: `Service-Signature`, or the headers of Standard
Webhooks. During a rotation of the secret it signs with both secrets.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from ._ed25519 import is_signed
from ._errors import TradeThesisError
from ._models import Event, ThinEvent, read_event


class Headers(Protocol):
    """The headers of a request, as every library for servers has them."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Names and values."""


TOLERANCE = 300.0
"""Seconds by which the time of a delivery may differ from the clock, so that nobody can send an old one again."""

MAX_DIGITS = 12
"""Longer times are no times, and Python refuses to read very long numbers."""

WebhookEvent: TypeAlias = Event | ThinEvent
"""What a delivery has. A webhook with the payload `thin` gets the latter."""

__all__ = ["TOLERANCE", "Headers", "WebhookEvent", "WebhookSignatureError", "verify"]


class WebhookSignatureError(TradeThesisError):
    """A delivery is not signed by the service, or it is too old. Respond with 400."""


def verify(
    body: bytes | str,
    headers: Headers,
    *keys: str,
    tolerance: float = TOLERANCE,
    now: Callable[[], float] = time.time,
) -> WebhookEvent:
    """Checks the signature of a delivery, and gives its event.

    Args:
        body: The body as it arrived. JSON that was parsed and written again has other bytes.
        headers: The headers of the request, in any case.
        keys: The secrets of the webhook (`whsec_…`) or its public key (`whpk_…`). One of them must have signed.
        tolerance: Seconds by which the time of the delivery may differ from the clock.
        now: The clock, in Unix seconds.

    Raises:
        WebhookSignatureError: No key has signed, the time is another one, or a key has another form.
    """
    # Anybody can sign by an empty secret.
    if not all(re.match(r"wh(sec|pk)_.", key) for key in keys):
        raise WebhookSignatureError("a secret begins with whsec_, a public key with whpk_")
    content = body.encode() if isinstance(body, str) else bytes(body)
    lower = {name.lower(): value for name, value in headers.items()}
    secrets = [key for key in keys if not key.startswith("whpk_")]
    own = lower.get("service-signature")
    if own is not None and secrets:
        _check_own(content, own, secrets, tolerance, now())
    elif "webhook-signature" in lower:
        _check_standard(content, lower, keys, tolerance, now())
    else:
        raise WebhookSignatureError("the request has no signature that a given key can check")
    try:
        event = json.loads(content)
        return read_event(event) if "data" in event else ThinEvent.read(event)
    except (KeyError, TypeError, ValueError) as error:
        raise WebhookSignatureError(f"the body is no event: {error}") from error


def _check_own(body: bytes, header: str, secrets: list[str], tolerance: float, now: float) -> None:
    parts = [part.strip().partition("=") for part in header.split(",")]
    at = next((value for name, _, value in parts if name == "t"), "")
    _check_time(at, tolerance, now)
    given = [value.encode() for name, _, value in parts if name == "v1"]
    message = at.encode() + b"." + body
    for secret in secrets:
        expected = hmac.new(secret.encode(), message, hashlib.sha256).hexdigest().encode()
        if any(hmac.compare_digest(expected, one) for one in given):
            return
    raise WebhookSignatureError("no signature of Service-Signature is by a given secret")


def _check_standard(
    body: bytes, headers: Mapping[str, str], keys: tuple[str, ...], tolerance: float, now: float
) -> None:
    at = headers.get("webhook-timestamp", "")
    _check_time(at, tolerance, now)
    message = f"{headers.get('webhook-id', '')}.{at}.".encode() + body
    given = [part.partition(",") for part in headers["webhook-signature"].split(" ")]
    for key in keys:
        version = "v1a" if key.startswith("whpk_") else "v1"
        content = _decoded(key.partition("_")[2])
        signatures = [_decoded(value) for name, _, value in given if name == version]
        if version == "v1a":
            is_by_key = any(is_signed(content, one, message) for one in signatures)
        else:
            expected = hmac.new(content, message, hashlib.sha256).digest()
            is_by_key = any(hmac.compare_digest(expected, one) for one in signatures)
        if is_by_key and content:
            return
    raise WebhookSignatureError("no signature of webhook-signature is by a given key")


def _check_time(text: str, tolerance: float, now: float) -> None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or abs(now - int(text)) > tolerance:
        raise WebhookSignatureError(f"the time of the delivery, {text!r}, is too far from the clock")


def _decoded(text: str) -> bytes:
    """The bytes of a text in base64; none if it is something else, so that no signature fits."""
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""

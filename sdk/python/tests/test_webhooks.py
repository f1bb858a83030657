"""Deliveries of webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import unittest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from trade_thesis import webhooks
from trade_thesis.types import ThinEvent, UnknownEvent

NOW = 1_795_271_394
OLD, NEW = ("whsec_" + base64.b64encode(bytes([number]) * 24).decode() for number in (1, 2))
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = "whpk_" + base64.b64encode(PRIVATE.public_key().public_bytes_raw()).decode()
ENVELOPE = {"object": "event", "id": "evt_1", "created_at": "2026-11-21T14:29:54.102Z", "livemode": False}
BODY = json.dumps(ENVELOPE | {"type": "later.type", "source": "sandbox", "data": {"text": "ü"}}).encode()


def own(body: bytes, *secrets: str, at: int = NOW) -> dict[str, str]:
    """The header of the service."""
    signatures = [hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest() for secret in secrets]
    return {"Service-Signature": ",".join([f"t={at}", *(f"v1={one}" for one in signatures)])}


def standard(body: bytes, *secrets: str, at: int = NOW) -> dict[str, str]:
    """The headers of Standard Webhooks."""
    message = b"evt_1.%d." % at + body
    signatures = [
        "v1," + base64.b64encode(hmac.digest(base64.b64decode(secret[6:]), message, "sha256")).decode()
        for secret in secrets
    ]
    signatures.append("v1a," + base64.b64encode(PRIVATE.sign(message)).decode())
    return {"webhook-id": "evt_1", "webhook-timestamp": str(at), "webhook-signature": " ".join(signatures)}


class Webhooks(unittest.TestCase):
    def verify(self, headers: dict[str, str], *keys: str, body: bytes = BODY) -> webhooks.WebhookEvent:
        """Verifies at a fixed time."""
        return webhooks.verify(body, headers, *keys, now=lambda: NOW + 299.0)

    def refuses(self, headers: dict[str, str], *keys: str, body: bytes = BODY) -> None:
        """Fails unless it is refused."""
        with self.assertRaises(webhooks.WebhookSignatureError):
            self.verify(headers, *keys, body=body)

    def test_either_signature_is_enough(self) -> None:
        for headers, key in [
            (own(BODY, NEW, OLD), OLD),
            (own(BODY, NEW, OLD), NEW),
            (standard(BODY, NEW, OLD), OLD),
            (standard(BODY, NEW, OLD), NEW),
            (standard(BODY), PUBLIC),
            (own(BODY, NEW) | standard(BODY, NEW), PUBLIC),
        ]:
            event = self.verify(headers, key)
            assert isinstance(event, UnknownEvent)
            self.assertEqual(event.raw["data"]["text"], "ü")

    def test_the_receiver_may_have_both_secrets(self) -> None:
        self.verify(own(BODY, OLD), NEW, OLD)
        self.verify(standard(BODY, OLD), NEW, OLD)

    def test_it_refuses_what_is_not_signed(self) -> None:
        other = BODY.replace(b"later", b"other")
        for headers in (own(BODY, OLD), standard(BODY, OLD)):
            self.refuses(headers, NEW)
            self.refuses(headers, OLD, body=other)
            self.refuses({}, OLD)
            self.refuses(headers)
        self.refuses(standard(BODY), PUBLIC, body=other)
        self.refuses(own(BODY, OLD), PUBLIC)
        self.refuses({"Service-Signature": f"t={NOW}"}, OLD)
        self.refuses(own(BODY, "whsec_"), PUBLIC)
        for known in ("", "whsec_", "secret"):
            self.refuses(own(BODY, known), known)
            self.refuses(own(BODY, known), OLD, known)
        # A secret that is no base64 signs nothing by Standard Webhooks.
        self.refuses(standard(BODY) | {"webhook-signature": "v1,"}, "whsec_?")

    def test_it_refuses_old_times(self) -> None:
        for at in (NOW - 2, NOW + 600):
            self.refuses(own(BODY, OLD, at=at), OLD)
            self.refuses(standard(BODY, OLD, at=at), OLD)
        for text in ("x", "", "-1", "1" * 5000):
            self.refuses({"Service-Signature": f"t={text},v1=y"}, OLD)

    def test_a_thin_event_has_no_data(self) -> None:
        body = json.dumps(ENVELOPE | {"type": "thesis.created"}).encode()
        event = self.verify(own(body, OLD), OLD, body=body)
        assert isinstance(event, ThinEvent)
        self.assertEqual((event.id, event.type), ("evt_1", "thesis.created"))


if __name__ == "__main__":
    unittest.main()

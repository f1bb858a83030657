# pip install standardwebhooks
import os

from standardwebhooks.webhooks import Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])


def handle(body: bytes, headers: dict[str, str]) -> None:
    # Raises an error if no signature is right, or the delivery is old.
    event = webhook.verify(body, headers)
    print(event["id"], event["type"])

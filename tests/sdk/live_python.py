"""The scenarios of `live.py`, with the SDK for Python."""

import asyncio
import base64
import datetime
import json
import os
import sys
from collections.abc import Callable

from trade_thesis import AsyncClient, Client, EventMessage, errors, receipts, webhooks
from trade_thesis.types import ThesisCreatedEvent, UnknownEvent

URL, KEY, TOKEN = os.environ["API_URL"], os.environ["API_KEY"], os.environ["TOKEN"]


def quick() -> None:
    """Walks the quick start, with both clients."""
    with Client(URL, KEY) as client:
        assert client.get_me().environment == "test"
        first = client.list_theses(token="RUN", limit=2)
        second = client.list_theses(token="RUN", limit=2, cursor=first.next_cursor)
        assert len({thesis.id for thesis in first.data + second.data}) == 4
        thesis = client.get_thesis(first.data[0].id)
        assert client.get_profile(thesis.profile.handle).id == thesis.profile.id
        assert client.get_token("$RUN").id == thesis.token.id
        assert client.search(q="sandbox", types=["profiles", "tokens"]).profiles
        before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=1)
        made = client.create_test_thesis(handle="sdk", token=TOKEN, text="My first thesis.", idempotency_key=TOKEN)
        again = client.create_test_thesis(handle="sdk", token=TOKEN, text="My first thesis.", idempotency_key=TOKEN)
        assert again.thesis.id == made.thesis.id
        verdict = client.verify_thesis(handle="sdk", token=TOKEN, created_after=before, contains="first")
        assert verdict.verified and verdict.thesis_id == made.thesis.id
        event = client.get_event(made.event.id)
        assert isinstance(event, ThesisCreatedEvent) and event.data.thesis_id == made.thesis.id
        webhook = client.create_webhook(url="http://127.0.0.1:19996/", events=["thesis.created"], description="for tests")
        changed = client.update_webhook(webhook.id, description=None, status="disabled")
        assert (changed.description, changed.status) == (None, "disabled")
        assert client.delete_webhook(webhook.id).deleted
        old = client.list_theses(sort="created_at_asc", limit=1, chain="sandbox").data[0]
        verified = receipts.verify(client.get_receipt(old.id), trusted=[key.key for key in client.list_log_keys().data])
        assert verified.is_trusted and verified.document["thesis_id"] == old.id
    asyncio.run(quick_async())


async def quick_async() -> None:
    """The client for asyncio, in short."""
    async with AsyncClient(URL, KEY) as client:
        [own] = [thesis async for thesis in client.iterate_theses(token=TOKEN)]
        before = own.created_at - datetime.timedelta(minutes=1)
        async with client.stream_events(token=TOKEN, types="thesis.created", from_=before) as stream:
            message = await anext(stream)
            assert isinstance(message, EventMessage) and isinstance(message.event, ThesisCreatedEvent)
            assert message.event.data.thesis_id == own.id and stream.cursor == message.cursor


def raised(call: Callable[[], object]) -> None:
    """Prints the error of a call."""
    try:
        call()
    except errors.ApiError as error:
        kinds = {
            errors.AuthenticationError: "authentication",
            errors.PermissionDeniedError: "permission",
            errors.NotFoundError: "not_found",
            errors.ConflictError: "conflict",
            errors.ValidationError: "validation",
            errors.InvalidRequestError: "invalid_request",
            errors.InternalError: "internal",
            errors.UpstreamError: "upstream",
        }
        print(kinds[type(error)], error.code, error.request_id)
    else:
        raise AssertionError("no error")


def provoke() -> None:
    """An error of each class."""
    client = Client(URL, KEY)
    own = client.create_test_thesis(handle="sdk", token=TOKEN, text="An own thesis.")
    stub = Client(os.environ["STUB_URL"], KEY, max_retries=0)
    raised(lambda: Client(URL, "svc_test_wrong").get_me())
    raised(lambda: client.list_theses(created_after="2001-01-01T00:00:00Z"))
    raised(lambda: client.get_token("NOSUCHTOKEN"))
    raised(lambda: client.get_receipt(own.thesis.id))
    raised(lambda: client.list_theses(limit=0))
    raised(lambda: client.list_theses(cursor="wrong"))
    raised(lambda: stub.get_me())
    raised(lambda: stub.get_token("RUN"))


def keyless() -> None:
    """Reads what everybody may read, and nothing else, without a key."""
    reader = Client(URL, None)
    for key in reader.list_log_keys().data:
        print(key.key)
    raised(reader.get_me)


def pages() -> None:
    """All rows of a token."""
    for thesis in Client(URL, KEY).iterate_theses(token=TOKEN, limit=100):
        print(thesis.id)


def stream() -> None:
    """The events of a token."""
    for message in Client(URL, KEY).stream_events(token=TOKEN, types="thesis.created", cursor=os.environ["CURSOR"]):
        assert isinstance(message, EventMessage), message
        print(message.event.id, flush=True)


def webhook() -> None:
    """Verifies deliveries."""
    for line in sys.stdin:
        given = json.loads(line)
        try:
            event = webhooks.verify(base64.b64decode(given["body"]), given["headers"], *given["keys"])
        except webhooks.WebhookSignatureError:
            print("refused")
        else:
            assert not isinstance(event, UnknownEvent)
            print(event.id)


def limited() -> None:
    """Calls until it is limited."""
    after = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    impatient = Client(URL, KEY, max_retries=0)
    while True:
        try:
            impatient.verify_thesis(handle="sdk", token=TOKEN, created_after=after)
        except errors.RateLimitError as error:
            assert error.code == "RATE_LIMITED"
            print(error.retry_after)
            break
    print(Client(os.environ["STUB_URL"], KEY).get_checkpoint("live"))
    if os.environ["WAITS"]:
        Client(URL, KEY).verify_thesis(handle="sdk", token=TOKEN, created_after=after)


SCENARIOS = {
    "quick": quick,
    "errors": provoke,
    "keyless": keyless,
    "pages": pages,
    "stream": stream,
    "webhook": webhook,
    "limited": limited,
}
SCENARIOS[sys.argv[1]]()

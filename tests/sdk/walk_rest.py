"""The quick start over REST, with a client that openapi-python-client makes of the served description."""

import datetime
import os
from typing import TypeVar

from thesis_rest import AuthenticatedClient
from thesis_rest.api.events import get_event, list_events
from thesis_rest.api.me import get_me
from thesis_rest.api.profiles import get_profile
from thesis_rest.api.search import search
from thesis_rest.api.test_data import create_test_thesis
from thesis_rest.api.theses import get_thesis, list_theses, verify_thesis
from thesis_rest.api.tokens import get_token, get_token_activity
from thesis_rest.api.webhooks import create_webhook, delete_webhook, update_webhook
from thesis_rest.models import (
    CreateTestThesis, CreateWebhook, DeletedWebhook, Environment, ErrorCode, ErrorDetails, ErrorEnvelope, EventList,
    EventType, KeyInfo, Profile, SearchResult, TestThesisResult, Thesis, ThesisCreatedEvent, ThesisList,
    ThesisVerification, Token, TokenActivity, UpdateWebhook, UpdateWebhookStatus, VerificationReason, VerifyThesis,
    Webhook, WebhookFilters, WebhookStatus, WebhookWithSecret,
)

client = AuthenticatedClient(base_url=os.environ["API_URL"], token=os.environ["API_KEY"])
T = TypeVar("T")


def told(kind: type[T], answer: object) -> T:
    """The answer, which is of this kind."""
    assert isinstance(answer, kind), answer
    return answer


# Who am I?
key = told(KeyInfo, get_me.sync(client=client))
assert key.environment is Environment.TEST
assert "theses:read" in key.scopes

# Theses, and the next page of them.
first = told(ThesisList, list_theses.sync(client=client, token="RUN", limit=2))
assert first.has_more and first.next_cursor
second = told(ThesisList, list_theses.sync(client=client, token="RUN", limit=2, cursor=first.next_cursor))
seen = [thesis.id for thesis in first.data + second.data]
assert len(set(seen)) == 4

# One thesis, its author, its token.
thesis = told(Thesis, get_thesis.sync(seen[0], client=client))
assert thesis.likes is None or thesis.likes >= 0
profile = told(Profile, get_profile.sync(thesis.profile.handle, client=client))
assert profile.id == thesis.profile.id
token = told(Token, get_token.sync("$RUN", client=client))
assert token.id == thesis.token.id
activity = told(TokenActivity, get_token_activity.sync("RUN", client=client))
assert len(activity.timeline) == 24

# Search, in two kinds of things.
found = told(SearchResult, search.sync(client=client, q="sandbox", types="profiles,tokens", limit=3))
assert found.tokens and found.profiles

# A thesis of our own, proof of it, and its event.
before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
own = CreateTestThesis(handle="sdk", token="RESTPY", text="My first thesis.")
made = told(TestThesisResult, create_test_thesis.sync(client=client, body=own, idempotency_key="rest-py"))
claim = VerifyThesis(handle="sdk", token="RESTPY", created_after=before, contains="first")
proof = told(ThesisVerification, verify_thesis.sync(client=client, body=claim))
assert proof.verified and proof.reason is VerificationReason.VERIFIED and proof.checks.contains
assert proof.thesis_id == made.thesis.id
event = told(ThesisCreatedEvent, get_event.sync(made.event.id, client=client))
assert event.data.thesis_id == made.event.data.thesis_id == made.thesis.id
types = "thesis.created,token.activity"
events = told(EventList, list_events.sync(client=client, types=types, token="RESTPY"))
assert made.event.id in [event.id for event in events.data]

# What is not there has a code, and the request its id.
missing = get_thesis.sync_detailed("th_0000000000000000000000000", client=client)
error = told(ErrorEnvelope, missing.parsed).error
assert missing.status_code == 404 and error.code is ErrorCode.THESIS_NOT_FOUND
assert error.request_id == missing.headers["X-Service-Request-Id"]
# Details that belong to a code are typed.
wrong = told(ErrorEnvelope, list_theses.sync(client=client, limit=0)).error
fields = told(ErrorDetails, wrong.details).errors
assert fields and [field.param for field in fields] == ["limit"]

# A webhook: made, changed, deleted.
wanted = CreateWebhook(
    url="http://127.0.0.1:19996/",
    events=[EventType.THESIS_CREATED],
    filters=WebhookFilters(token=["RESTPY"]),
)
webhook = told(WebhookWithSecret, create_webhook.sync(client=client, body=wanted))
assert webhook.secret.startswith("whsec_")
change = UpdateWebhook(
    events=[*webhook.events, EventType.PROFILE_UPDATED],
    description=None,
    status=UpdateWebhookStatus.DISABLED,
)
changed = told(Webhook, update_webhook.sync(webhook.id, client=client, body=change))
assert changed.status is WebhookStatus.DISABLED and len(changed.events) == 2 and changed.filters.token == ["RESTPY"]
assert told(DeletedWebhook, delete_webhook.sync(webhook.id, client=client)).deleted

"""The quick start over gRPC, with clients that grpcio-tools makes of the proto files."""

import datetime
import os

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo, RequestInfo
from grpc_status import rpc_status
from thesis.v1 import events_pb2, meta_service_pb2, thesis_service_pb2, webhook_service_pb2
from thesis.v1.event_service_pb2 import GetEventRequest, StreamEvent, SubscribeRequest
from thesis.v1.event_service_pb2_grpc import EventServiceStub
from thesis.v1.events_pb2 import EventFilters
from thesis.v1.meta_service_pb2_grpc import MetaServiceStub
from thesis.v1.profile_service_pb2 import GetProfileRequest
from thesis.v1.profile_service_pb2_grpc import ProfileServiceStub
from thesis.v1.search_service_pb2 import SEARCH_TYPE_PROFILES, SEARCH_TYPE_TOKENS, SearchRequest
from thesis.v1.search_service_pb2_grpc import SearchServiceStub
from thesis.v1.test_data_service_pb2 import CreateTestThesisRequest, TestThesisResult
from thesis.v1.test_data_service_pb2_grpc import TestDataServiceStub
from thesis.v1.thesis_service_pb2 import GetThesisRequest, ListThesesRequest, VerifyThesisRequest
from thesis.v1.thesis_service_pb2_grpc import ThesisServiceStub
from thesis.v1.token_service_pb2 import GetTokenActivityRequest, GetTokenRequest
from thesis.v1.token_service_pb2_grpc import TokenServiceStub
from thesis.v1.webhook_service_pb2 import CreateWebhookRequest, DeleteWebhookRequest, UpdateWebhookRequest
from thesis.v1.webhook_service_pb2_grpc import WebhookServiceStub

SOON = 30  # seconds

channel = grpc.insecure_channel(os.environ["GRPC_ADDR"])
metadata = (("authorization", f"Bearer {os.environ['API_KEY']}"),)
theses = ThesisServiceStub(channel)
events = EventServiceStub(channel)
tokens = TokenServiceStub(channel)
webhooks = WebhookServiceStub(channel)

# Who am I?
key = MetaServiceStub(channel).GetMe(meta_service_pb2.GetMeRequest(), metadata=metadata).key
assert key.environment == meta_service_pb2.ENVIRONMENT_TEST

# Theses, and the next page of them.
first = theses.ListTheses(ListThesesRequest(token="RUN", limit=2), metadata=metadata)
assert first.has_more
second = theses.ListTheses(ListThesesRequest(token="RUN", limit=2, cursor=first.next_cursor), metadata=metadata)
seen = [thesis.id for thesis in [*first.data, *second.data]]
assert len(set(seen)) == 4

# One thesis, its author, its token.
thesis = theses.GetThesis(GetThesisRequest(id=seen[0]), metadata=metadata).thesis
assert thesis.created_at.ToDatetime(datetime.UTC) <= datetime.datetime.now(datetime.UTC)
profiles = ProfileServiceStub(channel)
profile = profiles.GetProfile(GetProfileRequest(handle=thesis.profile.handle), metadata=metadata).profile
assert profile.id == thesis.profile.id
token = tokens.GetToken(GetTokenRequest(ref="$RUN"), metadata=metadata).token
assert token.id == thesis.token.id
activity = tokens.GetTokenActivity(GetTokenActivityRequest(ref="RUN"), metadata=metadata).activity
assert len(activity.timeline) == 24

# Search, in two kinds of things.
search = SearchRequest(q="sandbox", types=[SEARCH_TYPE_PROFILES, SEARCH_TYPE_TOKENS], limit=3)
result = SearchServiceStub(channel).Search(search, metadata=metadata).result
assert result.profiles and result.tokens


def make(text: str) -> TestThesisResult:
    """A thesis of our own, and its event."""
    request = CreateTestThesisRequest(handle="sdk", token="GRPCPY", text=text)
    return TestDataServiceStub(channel).CreateTestThesis(request, metadata=metadata).result


# Proof of a thesis of our own, and its event.
before = Timestamp()
before.FromDatetime(datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1))
made = make("My first thesis.")
claim = VerifyThesisRequest(handle="sdk", token="GRPCPY", created_after=before, contains="first")
proof = theses.VerifyThesis(claim, metadata=metadata).verification
assert proof.reason == thesis_service_pb2.VERIFICATION_REASON_VERIFIED
assert proof.thesis_id == made.thesis.id
event = events.GetEvent(GetEventRequest(id=made.event.id), metadata=metadata).event
assert event.type == events_pb2.EVENT_TYPE_THESIS_CREATED and event.WhichOneof("data") == "thesis_created"
assert event.thesis_created.thesis_id == made.thesis.id

# What is not there has a code, and the request its id.
try:
    theses.GetThesis(GetThesisRequest(id="th_0000000000000000000000000"), metadata=metadata)
    raise AssertionError("there is no such thesis")
except grpc.RpcError as failure:
    assert isinstance(failure, grpc.Call) and failure.code() is grpc.StatusCode.NOT_FOUND
    status = rpc_status.from_call(failure)
assert status is not None
info, request_info = ErrorInfo(), RequestInfo()
assert any(detail.Unpack(info) for detail in status.details) and info.reason == "THESIS_NOT_FOUND"
assert any(detail.Unpack(request_info) for detail in status.details) and request_info.request_id.startswith("req_")

# A webhook: made, changed, deleted.
created = webhooks.CreateWebhook(
    CreateWebhookRequest(
        url="http://127.0.0.1:19996/",
        events=[events_pb2.EVENT_TYPE_THESIS_CREATED],
        filters=EventFilters(token=["GRPCPY"]),
    ),
    metadata=metadata,
)
assert created.secret.startswith("whsec_")
change = UpdateWebhookRequest(
    id=created.webhook.id,
    update_mask=FieldMask(paths=["status"]),
    status=webhook_service_pb2.WEBHOOK_STATUS_DISABLED,
)
changed = webhooks.UpdateWebhook(change, metadata=metadata).webhook
assert changed.status == webhook_service_pb2.WEBHOOK_STATUS_DISABLED
deleted = webhooks.DeleteWebhook(DeleteWebhookRequest(id=changed.id), metadata=metadata)
assert deleted.id == created.webhook.id


def follow(cursor: str | None, text: str) -> tuple[StreamEvent, str]:
    """The first event after a cursor, and the id of the one that is made once the stream is open."""
    types = [events_pb2.EVENT_TYPE_THESIS_CREATED]
    request = SubscribeRequest(types=types, filters=EventFilters(token=["GRPCPY"]), cursor=cursor)
    posted = ""
    stream = events.Subscribe(request, metadata=metadata, timeout=SOON)
    for message in stream:
        assert not message.HasField("gap")
        if message.HasField("heartbeat") and not posted:
            posted = make(text).event.id
        if message.HasField("event"):
            stream.cancel()
            return message.event, posted
    raise AssertionError("the stream ended")


# A stream tells its cursor at once, then each event with its own; from there another goes on.
streamed, posted = follow(None, "The second.")
assert streamed.event.id == posted
missed = make("The third, while nobody listens.")
resumed, _ = follow(streamed.cursor, "The fourth.")
assert resumed.event.id == missed.event.id

// The quick start over gRPC, with clients that protoc-gen-es and connect-node make of the proto files.
import assert from "node:assert/strict";
import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ErrorInfoSchema, RequestInfoSchema } from "./google/rpc/error_details_pb.js";
import { EventService } from "./thesis/v1/event_service_pb.js";
import { EventType } from "./thesis/v1/events_pb.js";
import { Environment, MetaService } from "./thesis/v1/meta_service_pb.js";
import { ProfileService } from "./thesis/v1/profile_service_pb.js";
import { SearchService, SearchType } from "./thesis/v1/search_service_pb.js";
import { TestDataService } from "./thesis/v1/test_data_service_pb.js";
import { ThesisService, VerificationReason } from "./thesis/v1/thesis_service_pb.js";
import { TokenService } from "./thesis/v1/token_service_pb.js";
import { WebhookService, WebhookStatus } from "./thesis/v1/webhook_service_pb.js";

const withKey: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${process.env.API_KEY}`);
  return next(request);
};
const transport = createGrpcTransport({ baseUrl: `http://${process.env.GRPC_ADDR}`, interceptors: [withKey] });
const theses = createClient(ThesisService, transport);
const eventService = createClient(EventService, transport);
const tokens = createClient(TokenService, transport);
const webhooks = createClient(WebhookService, transport);
const testData = createClient(TestDataService, transport);

// Who am I?
const { key } = await createClient(MetaService, transport).getMe({});
assert.equal(key?.environment, Environment.TEST);

// Theses, and the next page of them.
const first = await theses.listTheses({ token: "RUN", limit: 2 });
assert(first.hasMore);
const second = await theses.listTheses({ token: "RUN", limit: 2, cursor: first.nextCursor });
const seen = [...first.data, ...second.data].map((thesis) => thesis.id);
assert.equal(new Set(seen).size, 4);

// One thesis, its author, its token.
const { thesis } = await theses.getThesis({ id: seen[0] });
assert(thesis?.profile && thesis.token && thesis.createdAt);
assert(timestampDate(thesis.createdAt).getTime() <= Date.now());
const { profile } = await createClient(ProfileService, transport).getProfile({ handle: thesis.profile.handle });
assert.equal(profile?.id, thesis.profile.id);
const { token } = await tokens.getToken({ ref: "$RUN" });
assert.equal(token?.id, thesis.token.id);
const { activity } = await tokens.getTokenActivity({ ref: "RUN" });
assert.equal(activity?.timeline.length, 24);

// Search, in two kinds of things.
const search = createClient(SearchService, transport);
const { result } = await search.search({ q: "sandbox", types: [SearchType.PROFILES, SearchType.TOKENS], limit: 3 });
assert(result && result.profiles.length > 0 && result.tokens.length > 0);

// A thesis of our own, proof of it, and its event.
const createdAfter = timestampFromMs(Date.now() - 60_000);
const make = async (text: string) => {
  const { result } = await testData.createTestThesis({ handle: "sdk", token: "GRPCTS", text });
  assert(result?.thesis && result.event);
  return { thesis: result.thesis, event: result.event };
};
const made = await make("My first thesis.");
const { verification } = await theses.verifyThesis({
  handle: "sdk", token: "GRPCTS", createdAfter, contains: "first",
});
assert.equal(verification?.reason, VerificationReason.VERIFIED);
assert.equal(verification.thesisId, made.thesis.id);
const { event } = await eventService.getEvent({ id: made.event.id });
assert(event?.type === EventType.THESIS_CREATED && event.data.case === "thesisCreated");
assert.equal(event.data.value.thesisId, made.thesis.id);

// What is not there has a code, and the request its id.
const failure = await theses.getThesis({ id: "th_0000000000000000000000000" }).catch(ConnectError.from);
assert(failure instanceof ConnectError);
assert.equal(failure.code, Code.NotFound);
assert.equal(failure.findDetails(ErrorInfoSchema)[0]?.reason, "THESIS_NOT_FOUND");
assert.match(failure.findDetails(RequestInfoSchema)[0]?.requestId ?? "", /^req_/);

// A webhook: made, changed, deleted.
const { webhook, secret } = await webhooks.createWebhook({
  url: "http://127.0.0.1:19996/", events: [EventType.THESIS_CREATED], filters: { token: ["GRPCTS"] },
});
assert(webhook && secret.startsWith("whsec_"));
const { webhook: changed } = await webhooks.updateWebhook({
  id: webhook.id, updateMask: { paths: ["status"] }, status: WebhookStatus.DISABLED,
});
assert.equal(changed?.status, WebhookStatus.DISABLED);
assert.equal((await webhooks.deleteWebhook({ id: webhook.id })).id, webhook.id);

// A stream tells its cursor at once, then each event with its own; from there another goes on.
async function follow(cursor: string | undefined, text: string) {
  const types = [EventType.THESIS_CREATED];
  const stop = AbortSignal.timeout(30_000);
  let posted: string | undefined;
  for await (const { message } of eventService.subscribe(
    { types, filters: { token: ["GRPCTS"] }, cursor },
    { signal: stop },
  )) {
    assert(message.case !== "gap");
    if (message.case === "heartbeat") posted ??= (await make(text)).event.id;
    if (message.case === "event") return { ...message.value, posted };
  }
  return assert.fail("the stream ended");
}
const streamed = await follow(undefined, "The second.");
assert.equal(streamed.event?.id, streamed.posted);
const missed = await make("The third, while nobody listens.");
const resumed = await follow(streamed.cursor, "The fourth.");
assert.equal(resumed.event?.id, missed.event.id);

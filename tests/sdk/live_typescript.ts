// The scenarios of `live.py`, with the SDK for TypeScript.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import {
  ApiError,
  AuthenticationError,
  Client,
  ConflictError,
  InternalError,
  InvalidRequestError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  UpstreamError,
  ValidationError,
  verifyReceipt,
  verifyWebhook,
  WebhookSignatureError,
} from "trade-thesis";

const { API_URL: url = "", API_KEY: key, TOKEN: token = "", STUB_URL: stubUrl = "", CURSOR: cursor, WAITS } = process.env;
const client = new Client(url, key);

/** Walks the quick start. */
async function quick(): Promise<void> {
  assert.equal((await client.getMe()).environment, "test");
  const first = await client.listTheses({ token: "RUN", limit: 2 });
  const second = await client.listTheses({ token: "RUN", limit: 2, cursor: first.next_cursor ?? "" });
  const ids = [...first.data, ...second.data].map(({ id }) => id);
  assert.equal(new Set(ids).size, 4);
  const thesis = await client.getThesis(ids[0] ?? "");
  assert.equal((await client.getProfile(thesis.profile.handle)).id, thesis.profile.id);
  assert.equal((await client.getToken("$RUN")).id, thesis.token.id);
  assert((await client.search({ q: "sandbox", types: ["profiles", "tokens"] })).profiles.length > 0);
  const before = new Date(Date.now() - 60_000);
  const own = { handle: "sdk", token, text: "My first thesis." };
  const made = await client.createTestThesis(own, { idempotencyKey: token });
  assert.equal((await client.createTestThesis(own, { idempotencyKey: token })).thesis.id, made.thesis.id);
  const verdict = await client.verifyThesis({ handle: "sdk", token, created_after: before, contains: "first" });
  assert(verdict.verified && verdict.thesis_id === made.thesis.id);
  const event = await client.getEvent(made.event.id);
  assert(event.type === "thesis.created" && event.data.thesis_id === made.thesis.id);
  const hook = { url: "http://127.0.0.1:19996/", events: ["thesis.created"], description: "for tests" };
  const webhook = await client.createWebhook(hook);
  const changed = await client.updateWebhook(webhook.id, { description: null, status: "disabled" });
  assert.deepEqual([changed.description, changed.status], [null, "disabled"]);
  assert((await client.deleteWebhook(webhook.id)).deleted);
  const [old] = (await client.listTheses({ sort: "created_at_asc", limit: 1, chain: "sandbox" })).data;
  const trusted = (await client.listLogKeys()).data.map((one) => one.key);
  const verified = await verifyReceipt(await client.getReceipt(old?.id ?? ""), { trusted });
  assert(verified.isTrusted && "thesis_id" in verified.document && verified.document.thesis_id === old?.id);
}

const KINDS = new Map<unknown, string>([
  [AuthenticationError, "authentication"],
  [PermissionDeniedError, "permission"],
  [NotFoundError, "not_found"],
  [ConflictError, "conflict"],
  [ValidationError, "validation"],
  [InvalidRequestError, "invalid_request"],
  [InternalError, "internal"],
  [UpstreamError, "upstream"],
]);

/** An error of each class. */
async function errors(): Promise<void> {
  const own = await client.createTestThesis({ handle: "sdk", token, text: "An own thesis." });
  const stub = new Client(stubUrl, key, { maxRetries: 0 });
  const calls = [
    () => new Client(url, "svc_test_wrong").getMe(),
    () => client.listTheses({ created_after: "2001-01-01T00:00:00Z" }),
    () => client.getToken("NOSUCHTOKEN"),
    () => client.getReceipt(own.thesis.id),
    () => client.listTheses({ limit: 0 }),
    () => client.listTheses({ cursor: "wrong" }),
    () => stub.getMe(),
    () => stub.getToken("RUN"),
  ];
  for (const call of calls) await raised(call);
}

/** Prints the error of a call. */
async function raised(call: () => Promise<unknown>): Promise<void> {
  await assert.rejects(call, (error) => {
    assert(error instanceof ApiError);
    console.log(KINDS.get(error.constructor), error.code, error.requestId);
    return true;
  });
}

/** Reads what everybody may read, and nothing else, without a key. */
async function keyless(): Promise<void> {
  const reader = new Client(url, undefined);
  for (const one of (await reader.listLogKeys()).data) console.log(one.key);
  await raised(() => reader.getMe());
}

/** All rows of a token. */
async function pages(): Promise<void> {
  for await (const { id } of client.iterateTheses({ token, limit: 100 })) console.log(id);
}

/** The events of a token. */
async function stream(): Promise<void> {
  for await (const message of client.streamEvents({ token, types: "thesis.created" }, { cursor })) {
    assert(message.type === "event");
    console.log(message.event.id);
  }
}

/** Verifies deliveries. */
async function webhook(): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const given = JSON.parse(line) as { headers: Record<string, string>; body: string; keys: string[] };
    try {
      console.log((await verifyWebhook(Buffer.from(given.body, "base64"), given.headers, given.keys)).id);
    } catch (error) {
      if (!(error instanceof WebhookSignatureError)) throw error;
      console.log("refused");
    }
  }
}

/** Calls until it is limited. */
async function limited(): Promise<void> {
  const claim = { handle: "sdk", token, created_after: new Date(Date.now() - 3_600_000) };
  const impatient = new Client(url, key, { maxRetries: 0 });
  const limit = async (): Promise<never> => {
    while (true) await impatient.verifyThesis(claim);
  };
  await assert.rejects(limit, (error) => {
    assert(error instanceof RateLimitError && error.code === "RATE_LIMITED");
    console.log(error.retryAfter);
    return true;
  });
  console.log(await new Client(stubUrl, key).getCheckpoint("live"));
  if (WAITS) await client.verifyThesis(claim);
}

const scenarios: Record<string, () => Promise<void>> = { quick, errors, keyless, pages, stream, webhook, limited };
await scenarios[process.argv[2] ?? ""]?.();

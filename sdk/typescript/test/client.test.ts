// Requests, retries, errors and pages.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ApiConnectionError,
  ApiError,
  ApiTimeoutError,
  AuthenticationError,
  Client,
  ConflictError,
  InternalError,
  InvalidRequestError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  UnexpectedResponseError,
  UpstreamError,
  ValidationError,
  VERSION,
} from "../src/index.js";
import { broken, json, refusal, scripted, silent } from "./helpers.js";

const ALERT = { name: "one", token: "RUN", metric: "thesis_count_1h", above: 5 };

test("it writes a request", async () => {
  const { client, sent } = scripted([json({ data: [] })]);
  await client.listEvents({
    types: ["thesis.created", "profile.updated"],
    token: "RUN",
    text: ["a", "b"],
    created_after: new Date("2026-01-31T12:00:00Z"),
    limit: undefined,
  });
  const [request] = sent;
  assert(request);
  assert.deepEqual(
    [...request.url.searchParams],
    [
      ["types", "thesis.created,profile.updated"],
      ["token", "RUN"],
      ["text", "a"],
      ["text", "b"],
      ["created_after", "2026-01-31T12:00:00.000Z"],
    ],
  );
  assert.equal(request.url.pathname, "/v1/events");
  assert.equal(request.headers["Authorization"], "Bearer svc_test_key");
  assert.equal(request.headers["User-Agent"], `trade-thesis-typescript/${VERSION}`);
  assert.equal(request.headers["Idempotency-Key"], undefined);
});

test("the user agent may name the program", async () => {
  const { client, sent } = scripted([json({})], { userAgent: "bot/1.2" });
  await client.getMe();
  assert.equal(sent[0]?.headers["User-Agent"], `trade-thesis-typescript/${VERSION} bot/1.2`);
});

test("it encodes paths", async () => {
  const { client, sent } = scripted([new Response("x"), new Response("x"), new Response("note")]);
  assert.deepEqual(await client.getArchiveFile("2026-01-31", "a/b?.parquet"), Uint8Array.of(120));
  await client.getTile("live", "0/x001/234");
  assert.equal(await client.getCheckpoint("live"), "note");
  assert.deepEqual(
    sent.map(({ url }) => url.pathname),
    ["/v1/archive/2026-01-31/a%2Fb%3F.parquet", "/v1/log/live/tile/0/x001/234", "/v1/log/live/checkpoint"],
  );
});

test("an id that names nothing is not sent", async () => {
  const { client, sent } = scripted([]);
  for (const id of ["", ".", ".."]) {
    await assert.rejects(client.getThesis(id), TypeError);
    await assert.rejects(client.getReceipt(id), TypeError);
  }
  assert.equal(sent.length, 0);
});

test("null clears a field, and undefined leaves it out", async () => {
  const { client, sent } = scripted([json({}), json({})]);
  await client.updateAlert("al_1", { above: null, for: "1m", name: undefined });
  await client.createStreamTicket({ idempotencyKey: "mine" });
  assert.deepEqual(sent[0]?.body, { above: null, for: "1m" });
  assert.equal(sent[0].headers["Content-Type"], "application/json");
  assert.deepEqual([sent[1]?.body, sent[1]?.headers["Idempotency-Key"]], [undefined, "mine"]);
});

test("it tries again with the same key", async () => {
  const { client, sent, pauses } = scripted([
    broken(),
    refusal(429, "RATE_LIMITED", "rate_limit", 7),
    refusal(503, "SERVICE_UNAVAILABLE", "internal", 1),
    refusal(409, "IDEMPOTENCY_IN_PROGRESS", "conflict", 1),
    json({ id: "al_1" }, 201),
  ]);
  assert.equal((await client.createAlert(ALERT)).id, "al_1");
  assert.equal(new Set(sent.map(({ headers }) => headers["Idempotency-Key"])).size, 1);
  const bounds = [[250, 500], [7500, 8000], [2000, 3000], [3000, 5000]] as const;
  assert.equal(pauses.length, bounds.length);
  for (const [index, [low, high]] of bounds.entries()) {
    const pause = pauses[index] ?? 0;
    assert(pause >= low && pause <= high, pauses.join(" "));
  }
});

test("it gives up", async () => {
  const cases = [
    [[refusal(429, "QUOTA_EXCEEDED", "rate_limit", 1)], RateLimitError, 0],
    [[refusal(429, "RATE_LIMITED", "rate_limit", 121)], RateLimitError, 0],
    [[refusal(404, "ALERT_NOT_FOUND", "not_found")], NotFoundError, 0],
    [[refusal(409, "DELIVERY_IN_PROGRESS", "conflict")], ConflictError, 0],
    [Array.from({ length: 6 }, broken), ApiConnectionError, 5],
  ] as const;
  for (const [answers, kind, retries] of cases) {
    const { client, pauses } = scripted([...answers]);
    await assert.rejects(client.getAlert("al_1"), kind);
    assert.equal(pauses.length, retries);
  }
});

test("a call has its own settings", async () => {
  const { client, pauses } = scripted([silent, silent], { maxRetries: 4 });
  await assert.rejects(client.getMe({ timeoutMs: 5, maxRetries: 1 }), ApiTimeoutError);
  assert.equal(pauses.length, 1);
});

test("the caller may end a call", async () => {
  const { client } = scripted([silent, silent]);
  const ended = new Error("enough");
  await assert.rejects(client.getMe({ signal: AbortSignal.abort(ended) }), ended);
  const controller = new AbortController();
  const call = client.getMe({ signal: controller.signal });
  controller.abort(ended);
  await assert.rejects(call, ended);
});

test("each class of errors has a type", async () => {
  const cases = [
    ["invalid_request", InvalidRequestError],
    ["authentication", AuthenticationError],
    ["permission", PermissionDeniedError],
    ["not_found", NotFoundError],
    ["conflict", ConflictError],
    ["validation", ValidationError],
    ["rate_limit", RateLimitError],
    ["internal", InternalError],
    ["upstream", UpstreamError],
    ["of_later", ApiError],
    ["constructor", ApiError],
  ] as const;
  for (const [type, expected] of cases) {
    const { client } = scripted([refusal(400, "CODE", type)]);
    await assert.rejects(client.getMe(), (error) => error instanceof ApiError && error.constructor === expected);
  }
});

test("an error says what is wrong", async () => {
  const body = { type: "conflict", code: "AMBIGUOUS_TOKEN", message: "give the chain", request_id: "req_1" };
  const more = { param: "token", doc_url: "https://a.example", details: { candidates: [{ chain: "base" }] } };
  const { client } = scripted([json({ error: { ...body, ...more } }, 409)]);
  await assert.rejects(client.getToken("RUN"), (error) => {
    assert(error instanceof ConflictError);
    assert.equal(error.message, "AMBIGUOUS_TOKEN: give the chain (req_1)");
    assert.deepEqual([error.status, error.code, error.requestId, error.param], [409, body.code, "req_1", "token"]);
    assert.deepEqual([error.docUrl, error.details?.candidates?.[0]?.chain], ["https://a.example", "base"]);
    return true;
  });
});

test("something else may respond", async () => {
  const bad = (): Response => new Response("bad gateway", { status: 502 });
  const { client, pauses } = scripted(Array.from({ length: 6 }, bad));
  const isBare = (error: unknown): boolean => error instanceof ApiError && error.status === 502 && error.code === "";
  await assert.rejects(client.getMe(), isBare);
  assert.equal(pauses.length, 5);
  await assert.rejects(scripted([new Response("<html>")]).client.getMe(), UnexpectedResponseError);
  const message = "status 404 without an error of the API: <html>";
  await assert.rejects(scripted([new Response("<html>", { status: 404 })]).client.getMe(), { message });
});

test("a file may take longer than a try, but no read of it", async ({ mock: { timers } }) => {
  timers.enable({ apis: ["setTimeout"] });
  const read = (millisecondsOfARead: number): Promise<Uint8Array> => {
    const pieces = ["P", "AR", "1"];
    const { client } = scripted(
      [
        (signal) => {
          const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
            timers.tick(millisecondsOfARead);
            // As with `fetch`, the end of a request ends the reads of its body.
            signal?.throwIfAborted();
            const piece = pieces.shift();
            if (piece === undefined) controller.close();
            else controller.enqueue(new TextEncoder().encode(piece));
          };
          return Promise.resolve(new Response(new ReadableStream({ pull }, { highWaterMark: 0 })));
        },
      ],
      { timeoutMs: 150, maxRetries: 0 },
    );
    return client.getArchiveFile("2026-01-31", "theses.parquet");
  };
  assert.equal(new TextDecoder().decode(await read(100)), "PAR1");
  await assert.rejects(read(150), ApiTimeoutError);
});

test("an iterator reads pages as they are needed", async () => {
  const { client, sent } = scripted([
    json({ data: [{ id: 1 }, { id: 2 }], next_cursor: "c1", has_more: true }),
    json({ data: [], next_cursor: "c2", has_more: true }),
    json({ data: [{ id: 3 }], next_cursor: null, has_more: false }),
  ]);
  const rows = client.iterateAlerts({ limit: 2 });
  assert.equal(sent.length, 0);
  await rows.next();
  assert.equal(sent.length, 1);
  const ids: unknown[] = [];
  for await (const { id } of rows) ids.push(id);
  assert.deepEqual(ids, [2, 3]);
  const queries = sent.map(({ url }) => url.search);
  assert.deepEqual(queries, ["?limit=2", "?limit=2&cursor=c1", "?limit=2&cursor=c2"]);
});

test("a list without a next cursor ends", async () => {
  const { client } = scripted([json({ data: [{ id: 1 }], next_cursor: null, has_more: true })]);
  const ids: unknown[] = [];
  for await (const { id } of client.iterateAlerts()) ids.push(id);
  assert.deepEqual(ids, [1]);
});

test("a list that is read as a whole has the largest pages", async () => {
  const { client, sent } = scripted([
    json({ data: [{ id: 1 }], next_cursor: "c1", has_more: true }),
    json({ data: [{ id: 2 }], next_cursor: null, has_more: false }),
  ]);
  const ids: unknown[] = [];
  for await (const { id } of client.iterateAlerts({ limit: undefined })) ids.push(id);
  assert.deepEqual(ids, [1, 2]);
  assert.deepEqual(sent.map(({ url }) => url.search), ["?limit=100", "?limit=100&cursor=c1"]);
});

test("a client needs an address", () => {
  const wrong = ["", "a.example", "ftp://a.b", "https://a.example?a", "https://a.example#a", "https://a.example/?"];
  for (const address of wrong) assert.throws(() => new Client(address, "svc_test_key"), TypeError);
});

test("a key has the form of a key, and may have an end of line", async () => {
  for (const key of ["", "\n", "svc test", "svc_test_\u00e9"]) {
    assert.throws(() => new Client("https://theses.example", key), TypeError);
  }
  let headers: HeadersInit | undefined;
  const client = new Client("https://theses.example", "svc_test_key\n", {
    fetch: (_, init) => {
      headers = init?.headers;
      return Promise.resolve(json({}));
    },
  });
  await client.getMe();
  assert.equal((headers as Record<string, string>)["Authorization"], "Bearer svc_test_key");
});

test("without a key there is no header", async () => {
  let headers: HeadersInit | undefined;
  const client = new Client("https://theses.example", undefined, {
    fetch: (_, init) => {
      headers = init?.headers;
      return Promise.resolve(json({ data: [] }));
    },
  });
  await client.listLogKeys();
  assert.equal((headers as Record<string, string>)["Authorization"], undefined);
});

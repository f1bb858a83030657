// Streams: the parser, and how they survive breaks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiConnectionError, ApiTimeoutError, AuthenticationError, UnexpectedResponseError } from "../src/index.js";
import { Parser } from "../src/sse.js";
import { EventStream, type StreamMessage } from "../src/stream.js";
import { broken, json, refusal, scripted, silent } from "./helpers.js";

const encoder = new TextEncoder();
const GAP = { first_cursor: "c0", last_cursor: "c4", skipped: 2, path: "/v1/events?token=RUN&text=a%26b" };

const event = (number: number): string =>
  `id: c${number}\nevent: later.type\ndata: ${JSON.stringify({ object: "event", type: "later.type", id: number })}\n\n`;
const frame = (cursor: string, type: string, data: unknown): string =>
  `id: ${cursor}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
const position = (cursor: string, type = "stream.cursor"): string => frame(cursor, type, { cursor });

/** A response with frames. It breaks at its end, or is silent. */
function stream(pieces: string[], end: "ends" | "breaks" | "is silent" = "ends"): Response {
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const piece = pieces.shift();
      if (piece !== undefined) controller.enqueue(encoder.encode(piece));
      else if (end === "ends") controller.close();
      else if (end === "breaks") controller.error(new TypeError("terminated"));
      else await new Promise(() => undefined);
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
}

async function taken(messages: AsyncIterable<StreamMessage>): Promise<StreamMessage[]> {
  const found: StreamMessage[] = [];
  for await (const message of messages) found.push(message);
  return found;
}

test("it reads frames in any pieces", () => {
  const text =
    ": ping\r\nretry: 1500\r\n\r\nid: 1\r\nevent: a\r\ndata: one\r\ndata:two \u2028é\r\n\r\n" +
    "data\ndata: x\n\nid: 2\nevent: left out\n\nid: no\0\ndata: y\r\rretry: 1s\ndata: z\r\n\ndata: unfinished";
  const expected = [
    { event: "a", data: "one\ntwo \u2028é", id: "1" },
    { event: "message", data: "\nx", id: "1" },
    { event: "message", data: "y", id: "2" },
    { event: "message", data: "z", id: "2" },
  ];
  const bytes = encoder.encode(text);
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const parser = new Parser();
    const frames = [];
    for (let at = 0; at < bytes.length; at += size) frames.push(...parser.feed(bytes.slice(at, at + size)));
    assert.deepEqual(frames, expected);
    assert.equal(parser.retry, 1500);
  }
});

test("it resumes over any break", async () => {
  const { client, sent, pauses } = scripted([
    broken(),
    stream(["retry: 20\n\n", position("c0"), event(1), "id: c2\nevent: later.type\nda"]),
    stream([event(2)], "breaks"),
    broken(),
    refusal(429, "STREAM_LIMIT_REACHED", "rate_limit", 300),
    refusal(503, "SERVICE_UNAVAILABLE", "internal"),
    stream([frame("c4", "stream.gap", GAP), event(5), position("c6")]),
    stream([position("c7", "stream.end")]),
  ]);
  const following = client.streamEvents({ token: "RUN" }, { cursor: "start" });
  const messages = await taken(following);
  assert.deepEqual(
    messages.map((message) => (message.type === "gap" ? message.gap.path : message.event.id)),
    [1, 2, GAP.path, 5],
  );
  assert.deepEqual(messages.map(({ cursor }) => cursor), ["c1", "c2", "c4", "c5"]);
  assert.equal(following.cursor, "c7");
  const cursors = sent.map(({ headers }) => headers["Last-Event-ID"]);
  assert.deepEqual(cursors, ["start", "start", "c1", "c2", "c2", "c2", "c2", "c6"]);
  assert.deepEqual([sent[0]?.url.search, sent[0]?.headers["Accept"]], ["?token=RUN", "text/event-stream"]);
  // The server's own pause after a break, then pauses that grow; and the longest that it asks for.
  assert.equal(pauses.length, 7);
  assert.deepEqual([pauses[1], pauses[2], pauses[6]], [20, 20, 20]);
  assert((pauses[4] ?? 0) > 300_000);
});

test("the end of a replay is 204 too", async () => {
  const { client, pauses } = scripted([new Response(null, { status: 204 })]);
  assert.deepEqual(await taken(client.streamEvents({}, { cursor: "c7" })), []);
  assert.equal(pauses.length, 0);
});

test("it ends where no repetition helps", async () => {
  const revoked = scripted([stream([event(1)]), refusal(401, "API_KEY_REVOKED", "authentication")]);
  await assert.rejects(taken(revoked.client.streamEvents()), AuthenticationError);
  const { client, pauses } = scripted(Array.from({ length: 6 }, broken));
  await assert.rejects(taken(client.streamEvents()), ApiConnectionError);
  assert.equal(pauses.length, 5);
  const wrong = scripted([stream(["event: thesis.created\ndata: {\n\n"])]);
  await assert.rejects(taken(wrong.client.streamEvents()), UnexpectedResponseError);
});

test("a pause of months is no short one", async () => {
  const busy = refusal(503, "SERVICE_UNAVAILABLE", "internal", 9_000_000);
  const { client, pauses } = scripted([stream([event(1)]), busy, stream([position("c2", "stream.end")])]);
  await taken(client.streamEvents());
  // Of more milliseconds a timer would make one.
  assert.equal(pauses[1], 2 ** 31 - 1);
});

test("silence is a break", async () => {
  const responses = [stream([event(1)], "is silent"), stream([position("c2", "stream.end")])];
  const opening = (_: string | undefined, connection: AbortController): Promise<Response> => {
    const response = responses.shift();
    assert(response?.body);
    // As `fetch` does it: what is read ends with the connection.
    const ended = new TransformStream<Uint8Array, Uint8Array>();
    response.body.pipeTo(ended.writable, { signal: connection.signal }).catch(() => undefined);
    return Promise.resolve(new Response(ended.readable));
  };
  const following = new EventStream(opening, {}, 5, () => Promise.resolve(), 10);
  assert.deepEqual((await taken(following)).map(({ cursor }) => cursor), ["c1"]);
  assert.equal(following.cursor, "c2");
});

test("leaving the loop closes the connection, and so does a signal", async () => {
  const controller = new AbortController();
  const first = scripted([stream([event(1), event(2)], "is silent")]).client.streamEvents();
  for await (const message of first) {
    assert.equal(message.cursor, "c1");
    break;
  }
  const second = scripted([silent]).client.streamEvents({}, { signal: controller.signal });
  const ended = new Error("enough");
  const reading = taken(second);
  controller.abort(ended);
  await assert.rejects(reading, ended);
});

test("a page asks for a new ticket each time", async () => {
  let tickets = 0;
  const { client, sent } = scripted([stream([event(1)]), new Response(null, { status: 204 })]);
  const ticket = (): Promise<string> => Promise.resolve(`tkt_${(tickets += 1)}`);
  await taken(client.streamEvents({ token: "RUN" }, { ticket }));
  assert.deepEqual(sent.map(({ url }) => url.search), ["?token=RUN&ticket=tkt_1", "?token=RUN&ticket=tkt_2"]);
  assert(sent.every(({ headers }) => headers["Authorization"] === undefined));
});

test("the events of a gap can be read", async () => {
  const { client, sent } = scripted([json({ data: [{ id: "evt_3" }], next_cursor: null, has_more: false })]);
  const ids: string[] = [];
  for await (const { id } of client.missedEvents(GAP)) ids.push(id);
  assert.deepEqual(ids, ["evt_3"]);
  assert.equal(`${sent[0]?.url.pathname}${sent[0]?.url.search}`, `${GAP.path}&limit=100`);
});

test("a gap leads to no other service", () => {
  const { client } = scripted([]);
  for (const path of ["https://a.example/v1/events", "//a.example/v1/events", "@a.example/v1/events", "/v1/theses"]) {
    assert.throws(() => client.missedEvents({ ...GAP, path }), TypeError);
  }
});

test("a refusal whose body never ends is a break", async () => {
  const unfinished = (signal: AbortSignal | null | undefined): Promise<Response> => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        signal?.addEventListener("abort", () => {
          controller.error(signal.reason);
        });
      },
    });
    return Promise.resolve(new Response(body, { status: 503 }));
  };
  const { client } = scripted([unfinished], { timeoutMs: 10, maxRetries: 0 });
  await assert.rejects(taken(client.streamEvents()), ApiTimeoutError);
});

// AsyncAPI's own parser finds nothing wrong in `/v1/asyncapi.json`, and 10,000 recorded frames of both streams are as its
// schemas say, by a validator of JSON Schema. `run` beside this file starts the service.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");

const from = createRequire(`${process.env.NODE_MODULES}/`);
const { Parser } = from("@asyncapi/parser");
const Ajv = from("ajv").default;
const addFormats = from("ajv-formats").default;
const WebSocket = from("ws");

const { API_URL, API_KEY } = process.env;
const headers = { authorization: `Bearer ${API_KEY}`, "content-type": "application/json" };
const FRAMES = 10_000;
// Theses of the project besides those of the sandbox, with texts that are easy to get wrong.
const THESES = 300;
const TEXTS = ["to the moon", 'quotes " and \\', "🚀 שלום", "line\nline", "\u2028 \u202e", "<b>&amp;</b>"];
// Subscriptions of one connection.
const AT_ONCE = 16;
// Most diagnostics are hints; errors and warnings are not.
const WARNING = 1;

// The document as it was served, after the parser has judged a copy of it.
async function parsed(path) {
  const text = readFileSync(path, "utf8");
  const { document, diagnostics } = await new Parser().parse(text);
  const wrong = diagnostics.filter(({ severity }) => severity <= WARNING);
  const told = wrong.map(({ code, path, message }) => `${code} ${path.join("/")}: ${message}`);
  assert.ok(document && told.length === 0, told.join("\n"));
  assert.deepEqual(document.channels().all().map((channel) => channel.id()).sort(), ["events", "stream", "webhook"]);
  return JSON.parse(text);
}

// A function that demands that a payload is as the message of this name says.
function judge({ channels, components }) {
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  const validators = new Map();
  for (const [channel, { messages }] of Object.entries(channels)) {
    for (const { $ref } of Object.values(messages)) {
      const { name, payload, examples } = components.messages[$ref.split("/").at(-1)];
      const validate = ajv.compile({ allOf: [payload], components });
      for (const example of examples ?? []) assert.ok(validate(example.payload), `${name}: ${ajv.errorsText(validate.errors)}`);
      validators.set(`${channel} ${name}`, validate);
    }
  }
  return (channel, name, payload) => {
    const validate = validators.get(`${channel} ${name}`);
    assert.ok(validate, `${channel} has no message ${name}`);
    assert.ok(validate(payload), `${name}: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(payload)}`);
  };
}

async function post(number) {
  const body = { handle: `writer${number % 7}`, token: `ASYNC${number}`, text: TEXTS[number % TEXTS.length] };
  const answer = await fetch(`${API_URL}/v1/test/theses`, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 201, await answer.clone().text());
}

// Judges the frames of a replay over Server-Sent Events; gives their number.
async function events(check, query) {
  const answer = await fetch(`${API_URL}/v1/events/stream?${query}`, { headers });
  const blocks = (await answer.text()).split("\n\n").filter((block) => block.includes("data: "));
  for (const block of blocks) {
    const field = (name) => block.split("\n").find((line) => line.startsWith(`${name}: `)).slice(name.length + 2);
    check("events", field("event"), JSON.parse(field("data")));
  }
  return blocks.length;
}

// Judges the messages of replays over a WebSocket until there are enough; gives their number.
function messages(check, bounds, enough) {
  const socket = new WebSocket(`${API_URL.replace("http", "ws")}/v1/stream`, { headers });
  let [count, next] = [0, 0];
  const subscribe = () => {
    const request = { op: "subscribe", sub: `${next++}`, ...bounds };
    check("stream", "subscribe", request);
    socket.send(JSON.stringify(request));
  };
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`closed after ${count} messages`)));
    socket.on("message", (text) => {
      try {
        const message = JSON.parse(text);
        check("stream", message.op, message);
        assert.notEqual(message.op, "error", text.toString());
        count += 1;
        if (message.op === "welcome") for (let open = 0; open < AT_ONCE; open++) subscribe();
        if (message.op === "ended" && count < enough) subscribe();
        if (count >= enough) {
          resolve(count);
          socket.terminate();
        }
      } catch (error) {
        reject(error);
        socket.terminate();
      }
    });
  });
}

async function main() {
  const check = judge(await parsed(process.argv[2]));
  for (let number = 0; number < THESES; number += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => post(number + index)));
  }
  const bounds = { from: new Date(Date.now() - 6 * 24 * 3_600_000).toISOString(), to: new Date().toISOString() };
  const first = await events(check, new URLSearchParams(bounds));
  assert.ok(first > THESES, `${first} frames`);
  const all = first + (await messages(check, bounds, FRAMES - first));
  assert.ok(all >= FRAMES, `${all} frames`);
}

main().catch((error) => {
  console.log(error);
  process.exit(1);
});

// The SDK for TypeScript in Chromium, as it is built, on a page of another origin than the service's. It lists theses,
// reads an error, creates theses, and follows a stream with tickets that goes on behind a cursor.
const assert = require("node:assert/strict");
const { readFile } = require("node:fs/promises");
const { createServer } = require("node:http");
const { basename, join } = require("node:path");
const { base, walk } = require("./browser.cjs");

const [, key, built] = process.argv.slice(2);
const PAGE = `<!doctype html><html lang="en"><title>A page</title><link rel="icon" href="data:,">
<script type="module">import * as sdk from "/index.js"; window.sdk = sdk;</script>`;

// Serves the page and the modules of the SDK.
async function serve() {
  const server = createServer(async ({ url }, response) => {
    if (url === "/") return response.writeHead(200, { "Content-Type": "text/html" }).end(PAGE);
    const file = await readFile(join(built, basename(url))).catch(() => undefined);
    return response.writeHead(file ? 200 : 404, { "Content-Type": "text/javascript" }).end(file);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

// What a page does with a key: the oldest theses of the sandbox over two pages, and an error.
async function lists([address, key]) {
  const { Client, NotFoundError } = window.sdk;
  const client = new Client(address, key);
  const ids = [];
  for await (const { id } of client.iterateTheses({ chain: "sandbox", sort: "created_at_asc", limit: 2 })) {
    ids.push(id);
    if (ids.length === 3) break;
  }
  const error = await client.getToken("NOSUCHTOKEN").catch((error) => error);
  return { ids, error: { isNotFound: error instanceof NotFoundError, code: error.code, requestId: error.requestId } };
}

// What a page does with tickets. A server would create them, which keeps the key from pages that others see.
async function follows([address, key]) {
  const { Client } = window.sdk;
  const owner = new Client(address, key);
  const reader = new Client(address, undefined);
  const ticket = async () => (await owner.createStreamTicket()).ticket;
  const create = async (text) => (await owner.createTestThesis({ handle: "page", token: "SDKPAGE", text })).event.id;
  const query = { token: "SDKPAGE", types: ["thesis.created"] };
  const expected = [await create("one")];
  const found = [];
  let cursor;
  const from = new Date(Date.now() - 60_000);
  for await (const message of reader.streamEvents({ ...query, from }, { ticket })) {
    found.push(message.event.id);
    cursor = message.cursor;
    break;
  }
  expected.push(await create("two"));
  for await (const message of reader.streamEvents(query, { ticket, cursor })) {
    found.push(message.event.id);
    if (found.length === 3) break;
    // This one comes while the stream is open.
    expected.push(await create("three"));
  }
  return { expected, found };
}

walk(async (browser) => {
  const server = await serve();
  try {
    const page = await browser.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(`${error}`));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction("window.sdk");
    const { ids, error } = await page.evaluate(lists, [base, key]);
    const query = "chain=sandbox&sort=created_at_asc&limit=3";
    const answer = await fetch(`${base}/v1/theses?${query}`, { headers: { Authorization: `Bearer ${key}` } });
    assert.deepEqual(ids, (await answer.json()).data.map(({ id }) => id));
    assert.deepEqual([error.isNotFound, error.code], [true, "TOKEN_NOT_FOUND"]);
    assert.match(error.requestId, /^req_/);
    const { expected, found } = await page.evaluate(follows, [base, key]);
    assert.equal(expected.length, 3);
    assert.deepEqual(found, expected);
    assert.deepEqual(faults, []);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

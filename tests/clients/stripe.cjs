// The npm package stripe verifies deliveries, after a rotation by the new secret and by the old one.
const assert = require("node:assert/strict");
const { once } = require("node:events");
const { createServer } = require("node:http");
const { createRequire } = require("node:module");
const { buffer } = require("node:stream/consumers");
const { webhooks } = createRequire(`${process.env.NODE_MODULES}/`)("stripe");

const [http, key] = process.argv.slice(2);
const TOKEN = "NODESIGNED";

async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const answer = await fetch(http + path, { method, headers, body: JSON.stringify(body) });
  const text = await answer.text();
  assert.ok(answer.ok, `${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

// Whether the library takes a delivery, as a signature and as a whole event alike.
function verifies({ signature, body }, secret) {
  const taken = [
    () => webhooks.signature.verifyHeader(body, signature, secret, 300),
    () => webhooks.constructEvent(body, signature, secret, 300).id === JSON.parse(body).id,
  ].map((verify) => {
    try {
      return verify();
    } catch (error) {
      assert.equal(error.type, "StripeSignatureVerificationError", error);
      return false;
    }
  });
  assert.equal(taken[0], taken[1]);
  return taken[0];
}

async function main() {
  const endpoint = createServer(async (request, answer) => {
    const body = await buffer(request);
    answer.writeHead(204).end();
    endpoint.emit("delivery", { signature: request.headers["service-signature"], body });
  });
  await once(endpoint.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${endpoint.address().port}/hook`;
  const webhook = await ask("POST", "/v1/webhooks", { url, events: ["thesis.created"], filters: { token: [TOKEN] } });
  const secrets = [webhook.secret];
  for (const [signatures, text] of [[1, "signed"], [2, "signed by two: déjà vu 🚀"]]) {
    const arrives = once(endpoint, "delivery");
    const { event } = await ask("POST", "/v1/test/theses", { handle: "writer", token: TOKEN, text });
    const [delivery] = await arrives;
    assert.equal(JSON.parse(delivery.body).id, event.id);
    assert.equal(delivery.signature.match(/v1=/g).length, signatures);
    for (const secret of secrets) assert.ok(verifies(delivery, secret));
    assert.ok(!verifies(delivery, `${secrets[0]}0`));
    assert.ok(!verifies({ ...delivery, body: Buffer.concat([delivery.body, Buffer.from(" ")]) }, secrets[0]));
    const rotated = await ask("POST", `/v1/webhooks/${webhook.id}/rotate-secret`, {});
    assert.equal(rotated.id, webhook.id);
    assert.ok(!verifies(delivery, rotated.secret));
    secrets.unshift(rotated.secret);
  }
  await ask("DELETE", `/v1/webhooks/${webhook.id}`);
  endpoint.close();
  endpoint.closeAllConnections();
}

main();

// The npm package standardwebhooks, and Node's own Ed25519, judge the deliveries of a file; see standard.py.
const assert = require("node:assert/strict");
const { createPublicKey, verify } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { Webhook, WebhookVerificationError } = createRequire(`${process.env.NODE_MODULES}/`)("standardwebhooks");

const { public_key: publicKey, deliveries } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const x = Buffer.from(publicKey.replace("whpk_", ""), "base64").toString("base64url");
const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });

function verifies(secret, headers, body) {
  try {
    new Webhook(secret).verify(body, headers, { jsonParse: false });
    return true;
  } catch (error) {
    assert.ok(error instanceof WebhookVerificationError, error);
    return false;
  }
}

function keyVerifies(headers, body) {
  const signatures = headers["webhook-signature"].split(" ").map((part) => part.split(","));
  const [[, signature]] = signatures.filter(([version]) => version === "v1a");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  return verify(null, Buffer.from(signed), key, Buffer.from(signature, "base64"));
}

for (const { headers, body, changed, secrets, wrong } of deliveries) {
  for (const secret of secrets) {
    assert.ok(verifies(secret, headers, body));
    assert.ok(!verifies(secret, headers, changed));
  }
  for (const secret of wrong) assert.ok(!verifies(secret, headers, body));
  assert.ok(keyVerifies(headers, body));
  assert.ok(!keyVerifies(headers, changed));
}
assert.ok(deliveries.length >= 1000);

// Deliveries of webhooks.
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { verifyWebhook, WebhookSignatureError } from "../src/index.js";

const NOW = 1_795_271_394;
const secretOf = (byte: number): string => `whsec_${Buffer.alloc(24, byte).toString("base64")}`;
const [OLD, NEW] = [secretOf(1), secretOf(2)];
const PAIR = generateKeyPairSync("ed25519");
const PUBLIC = `whpk_${PAIR.publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("base64")}`;
const BODY = JSON.stringify({ object: "event", id: "evt_1", type: "later.type", data: { text: "ü" } });

type Signed = Record<string, string>;

function own(body: string, secrets: string[], at = NOW): Signed {
  const parts = secrets.map((secret) => `v1=${createHmac("sha256", secret).update(`${at}.${body}`).digest("hex")}`);
  return { "Service-Signature": [`t=${at}`, ...parts].join(",") };
}

function standard(body: string, secrets: string[], at = NOW): Signed {
  const message = `evt_1.${at}.${body}`;
  const keys = secrets.map((secret) => Buffer.from(secret.slice(6), "base64"));
  const parts = keys.map((key) => `v1,${createHmac("sha256", key).update(message).digest("base64")}`);
  parts.push(`v1a,${sign(null, Buffer.from(message), PAIR.privateKey).toString("base64")}`);
  return { "webhook-id": "evt_1", "webhook-timestamp": String(at), "webhook-signature": parts.join(" ") };
}

const now = (): number => (NOW + 299) * 1000;

function verify(headers: Signed | Headers, keys: string | string[], body: string | Uint8Array = BODY): Promise<unknown> {
  return verifyWebhook(body, headers, keys, { now });
}

async function refuses(headers: Signed, keys: string | string[], body = BODY): Promise<void> {
  await assert.rejects(verify(headers, keys, body), WebhookSignatureError);
}

test("either signature is enough", async () => {
  for (const [headers, keys] of [
    [own(BODY, [NEW, OLD]), OLD],
    [own(BODY, [NEW, OLD]), NEW],
    [standard(BODY, [NEW, OLD]), OLD],
    [standard(BODY, [NEW, OLD]), NEW],
    [standard(BODY, []), PUBLIC],
    [{ ...own(BODY, [NEW]), ...standard(BODY, [NEW]) }, PUBLIC],
    [own(BODY, [OLD]), [NEW, OLD]],
    [standard(BODY, [OLD]), [NEW, OLD]],
  ] as const) {
    const event = await verify(headers, [keys].flat());
    assert.deepEqual(event, JSON.parse(BODY));
  }
  await verify(new Headers(own(BODY, [OLD])), OLD, Buffer.from(BODY));
});

test("it refuses what is not signed", async () => {
  const other = BODY.replace("later", "other");
  for (const headers of [own(BODY, [OLD]), standard(BODY, [OLD])]) {
    await refuses(headers, NEW);
    await refuses(headers, OLD, other);
    await refuses({}, OLD);
    await refuses(headers, []);
  }
  await refuses(standard(BODY, []), PUBLIC, other);
  await refuses(own(BODY, [OLD]), PUBLIC);
  await refuses({ "Service-Signature": `t=${NOW}` }, OLD);
  await refuses({ "Service-Signature": `t=${NOW},v1=zz,v1` }, OLD);
  await refuses({ ...standard(BODY, [OLD]), "webhook-signature": "v1, v1 v1,?" }, OLD);
  await refuses(standard(BODY, [OLD]), "whsec_?");
  for (const known of ["", "whsec_", "secret"]) {
    await refuses({ "Service-Signature": `t=${NOW},v1=` }, known);
    await refuses(own(BODY, [OLD]), [OLD, known]);
  }
});

test("it refuses old times", async () => {
  for (const at of [NOW - 2, NOW + 600]) {
    await refuses(own(BODY, [OLD], at), OLD);
    await refuses(standard(BODY, [OLD], at), OLD);
  }
  await refuses({ "Service-Signature": "t=x,v1=y" }, OLD);
});

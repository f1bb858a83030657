// Checks the deliveries of webhooks. The service signs each in two ways, and either is enough: `Service-Signature`, or
// the headers of Standard Webhooks. During a rotation of the secret it signs with both secrets.
import { bytesOf, fromBase64, fromHex, isHmacBy, isSignedBy } from "./bytes.js";
import { TradeThesisError } from "./errors.js";
import type { Event, ThinEvent } from "./types.js";

/** Seconds by which the time of a delivery may differ from the clock, so that nobody can send an old one again. */
const TOLERANCE = 300;

/** What a delivery has. A webhook with the payload `thin` gets an event without `data`. */
export type WebhookEvent = Event | (ThinEvent & { data?: never });

/** A delivery is not signed by the service, or it is too old. Respond with 400. */
export class WebhookSignatureError extends TradeThesisError {
  override readonly name: string = "WebhookSignatureError";
}

/** Headers as `fetch` has them, or as Node has them. */
export type HeadersLike = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface WebhookOptions {
  /** Seconds by which the time of the delivery may differ from the clock; 300 unless given. */
  tolerance?: number | undefined;
  /** The clock, in Unix milliseconds. */
  now?: (() => number) | undefined;
}

/**
 * Checks the signature of a delivery, and gives its event. Throws a {@link WebhookSignatureError} otherwise.
 *
 * @param body - The body as it arrived. JSON that was parsed and written again has other bytes.
 * @param headers - The headers of the request.
 * @param keys - The secrets of the webhook (`whsec_…`) or its public key (`whpk_…`). One of them must have signed.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: HeadersLike,
  keys: string | readonly string[],
  options: WebhookOptions = {},
): Promise<WebhookEvent> {
  const content = bytesOf(body);
  const given = typeof keys === "string" ? [keys] : keys;
  // Anybody can sign by an empty secret.
  if (!given.every((key) => /^wh(sec|pk)_./.test(key))) {
    throw new WebhookSignatureError("a secret begins with whsec_, a public key with whpk_");
  }
  const secrets = given.filter((key) => !key.startsWith("whpk_"));
  const header = lookup(headers);
  const [own, standard] = [header("service-signature"), header("webhook-signature")];
  if (own !== undefined && secrets.length > 0) await checkOwn(content, own, secrets, options);
  else if (standard !== undefined) await checkStandard(content, header, standard, given, options);
  else throw new WebhookSignatureError("the request has no signature that a given key can check");
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content)) as WebhookEvent;
  } catch (error) {
    throw new WebhookSignatureError("the body is no event", { cause: error });
  }
}

function lookup(headers: HeadersLike): (name: string) => string | undefined {
  if (headers instanceof Headers) return (name) => headers.get(name) ?? undefined;
  const entries = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  const known = new Map(entries);
  return (name) => {
    const value = known.get(name);
    return typeof value === "string" ? value : value?.join(",");
  };
}

async function checkOwn(
  body: Uint8Array,
  header: string,
  secrets: readonly string[],
  options: WebhookOptions,
): Promise<void> {
  const parts = header.split(",").map((part) => part.trim().split("=", 2));
  const at = parts.find(([name]) => name === "t")?.[1] ?? "";
  checkTime(at, options);
  const signatures = parts.flatMap(([name, value]) => (name === "v1" ? [fromHex(value ?? "")] : []));
  for (const secret of secrets) {
    for (const signature of signatures) {
      if (signature && (await isHmacBy(bytesOf(secret), signature, bytesOf(`${at}.`, body)))) return;
    }
  }
  throw new WebhookSignatureError("no signature of Service-Signature is by a given secret");
}

async function checkStandard(
  body: Uint8Array,
  header: (name: string) => string | undefined,
  signed: string,
  keys: readonly string[],
  options: WebhookOptions,
): Promise<void> {
  const at = header("webhook-timestamp") ?? "";
  checkTime(at, options);
  const message = bytesOf(`${header("webhook-id") ?? ""}.${at}.`, body);
  const parts = signed.split(" ").map((part) => part.split(",", 2));
  for (const key of keys) {
    const version = key.startsWith("whpk_") ? "v1a" : "v1";
    const content = fromBase64(key.slice(key.indexOf("_") + 1));
    for (const [name, value = ""] of parts) {
      const signature = fromBase64(value);
      if (name !== version || !content || !signature) continue;
      const check = version === "v1a" ? isSignedBy : isHmacBy;
      if (await check(content, signature, message)) return;
    }
  }
  throw new WebhookSignatureError("no signature of webhook-signature is by a given key");
}

function checkTime(text: string, { tolerance = TOLERANCE, now = Date.now }: WebhookOptions): void {
  if (!/^[0-9]+$/.test(text) || Math.abs(now() / 1000 - Number(text)) > tolerance) {
    throw new WebhookSignatureError(`the time of the delivery, ${JSON.stringify(text)}, is too far from the clock`);
  }
}

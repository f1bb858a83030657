// JSON whose bytes are the same for everybody (RFC 8785), of whole numbers alone.
import { demand, ReceiptError } from "./receipt_error.js";

/** A receipt has few levels. The command has the same limit. */
const MAX_DEPTH = 127;
const LONE_SURROGATE = /\p{Surrogate}/u;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[{\]}]|-?[0-9][0-9.eE+-]*/g;

/**
 * Reads JSON. `JSON.parse` rounds numbers, so one that is not written as a whole number becomes a fraction, which no
 * field may have.
 */
export function parseExact(text: string): unknown {
  JSON.parse(text);
  let depth = 0;
  const exact = text.replace(TOKEN, (token) => {
    if (token === "[" || token === "{") depth += 1;
    if (token === "]" || token === "}") depth -= 1;
    if (depth > MAX_DEPTH) throw new ReceiptError("unreadable", `the document has more than ${MAX_DEPTH} levels`);
    return /^-?[0-9]/.test(token) && !/^(0|-?[1-9][0-9]*)$/.test(token) ? "0.5" : token;
  });
  return JSON.parse(exact);
}

/** The canonical form of a value. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    // By UTF-16 code units, as RFC 8785 demands.
    const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
    return `{${fields.map(([name, field]) => `${canonical(name)}:${canonical(field)}`).join(",")}}`;
  }
  if (typeof value === "string") demand(!LONE_SURROGATE.test(value), "number", "a text has an incomplete character");
  if (typeof value === "number") {
    const isWhole = Number.isSafeInteger(value) && !Object.is(value, -0);
    demand(isWhole, "number", `the number ${value} is not written as a whole one, or is beyond 2^53 - 1`);
  }
  return JSON.stringify(value);
}

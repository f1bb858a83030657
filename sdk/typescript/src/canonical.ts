// JSON whose bytes are the same for everybody (RFC 8785), of whole numbers alone.
import { demand } from "./receipt_error.js";

/** A receipt has few levels. The command has the same limit. */
const MAX_DEPTH = 127;
/** A parser of Rust reads the text in a field of this name as JSON, and no other parser does. */
const RAW_VALUE = "$serde_json::private::RawValue";
const LONE_SURROGATE = /\p{Surrogate}/u;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[[{\]}]|-?[0-9][0-9.eE+-]*/g;

/**
 * Reads JSON. `JSON.parse` rounds numbers, so one that is not written as a whole number becomes a fraction, which no
 * field may have. It also keeps the last of two fields of one name, so these are refused, as are other texts that
 * readers understand differently, numbers that it makes infinite, and halves of surrogate pairs.
 */
export function parseExact(text: string): unknown {
  JSON.parse(text);
  // The names of each object that is open; a list has none.
  const open: Set<string>[] = [];
  const exact = text.replace(TOKEN, (token: string, colon: string | undefined) => {
    if (token === "[" || token === "{") open.push(new Set());
    if (token === "]" || token === "}") open.pop();
    demand(open.length <= MAX_DEPTH, "unreadable", `the document has more than ${MAX_DEPTH} levels`);
    if (colon !== undefined) {
      const name = JSON.parse(token.slice(0, -colon.length)) as string;
      const names = open.at(-1);
      const inTwoWays = "the document can be read in two ways: an object has";
      demand(names?.has(name) === false, "unreadable", `${inTwoWays} two fields ${JSON.stringify(name)}`);
      demand(name !== RAW_VALUE, "unreadable", `${inTwoWays} the field "${name}"`);
      names.add(name);
    }
    const isNumber = /^-?[0-9]/.test(token);
    demand(!isNumber || Number.isFinite(Number(token)), "unreadable", "the document has a number that is too large");
    return isNumber && !/^(0|-?[1-9][0-9]*)$/.test(token) ? "0.5" : token;
  });
  return JSON.parse(exact, (name: string, value: unknown) => {
    const isBroken = LONE_SURROGATE.test(name) || (typeof value === "string" && LONE_SURROGATE.test(value));
    demand(!isBroken, "unreadable", "the document is not JSON: a text has an incomplete character");
    return value;
  });
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

// Reads the stored entry of an archive file, which a receipt of the file has: a message of protobuf.
import { ReceiptError } from "./receipt_error.js";

const FILE_FIELD = 17;
/** The last millisecond of the year 9999. */
const MAX_TIME_MS = 253_402_300_799_999n;

/** The fields of a message: numbers, bytes, and null for a number of a fixed size, which no field of an entry is. */
type Fields = readonly (readonly [number, bigint | Uint8Array | null])[];

/** Date, kind and SHA-256 of the file. */
export function namedFile(stored: Uint8Array): [string, string, string] {
  try {
    const entry = fieldsOf(stored);
    const file = fieldsOf(bytes(entry, FILE_FIELD));
    if (number(entry, 2) > MAX_TIME_MS) throw new RangeError("a time after the year 9999");
    for (const field of [3, 4, 5]) number(file, field);
    const text = (field: number): string =>
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes(file, field, new Uint8Array()));
    return [text(1), text(2), text(6)];
  } catch (error) {
    throw new ReceiptError("entry", "the entry is not that of an archive file", { cause: error });
  }
}

/** The value of a field. Libraries differ in what they do with several ones, so they are an error. */
function only(fields: Fields, field: number, fallback: bigint | Uint8Array | null): bigint | Uint8Array | null {
  const values = fields.filter(([one]) => one === field);
  if (values.length > 1) throw new RangeError("a field twice");
  return values[0] ? values[0][1] : fallback;
}

function number(fields: Fields, field: number): bigint {
  const value = only(fields, field, 0n);
  if (typeof value !== "bigint") throw new TypeError("no number");
  return value;
}

function bytes(fields: Fields, field: number, fallback: Uint8Array | null = null): Uint8Array {
  const value = only(fields, field, fallback);
  if (!(value instanceof Uint8Array)) throw new TypeError("no bytes");
  return value;
}

function fieldsOf(message: Uint8Array): Fields {
  const fields: [number, bigint | Uint8Array | null][] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = message[at];
      at += 1;
      if (byte === undefined) throw new RangeError("cut off");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128 && value < 1n << 64n) return value;
    }
    throw new RangeError("a number that is too long");
  };
  while (at < message.length) {
    const tag = Number(varint());
    const [field, type] = [Math.floor(tag / 8), tag % 8];
    if (![0, 1, 2, 5].includes(type) || field < 1 || field >= 2 ** 29) throw new RangeError("another field");
    if (type === 0) {
      fields.push([field, varint()]);
      continue;
    }
    const length = type === 2 ? Number(varint()) : type === 1 ? 8 : 4;
    if (length > message.length - at) throw new RangeError("cut off");
    fields.push([field, type === 2 ? message.subarray(at, at + length) : null]);
    at += length;
  }
  return fields;
}

// Reads the stored entry of an archive file, which a receipt of the file has: a message of protobuf.
import { ReceiptError } from "./receipt_error.js";

const FILE_FIELD = 17;

/** Date, kind and SHA-256 of the file. */
export function namedFile(stored: Uint8Array): [string, string, string] {
  try {
    const content = fieldsOf(stored).get(FILE_FIELD);
    if (content === undefined) throw new RangeError("no file");
    const file = fieldsOf(bytes(content));
    const text = (field: number): string =>
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes(file.get(field) ?? new Uint8Array()));
    return [text(1), text(2), text(6)];
  } catch (error) {
    throw new ReceiptError("entry", "the entry is not that of an archive file", { cause: error });
  }
}

function bytes(value: bigint | Uint8Array): Uint8Array {
  if (typeof value === "bigint") throw new TypeError("a number");
  return value;
}

/** The fields of a message: numbers, and the bytes of everything else. */
function fieldsOf(message: Uint8Array): Map<number, bigint | Uint8Array> {
  const fields = new Map<number, bigint | Uint8Array>();
  let at = 0;
  const varint = (): bigint => {
    let number = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = message[at];
      at += 1;
      if (byte === undefined) throw new RangeError("cut off");
      number |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, number);
    }
    throw new RangeError("a number that is too long");
  };
  while (at < message.length) {
    const tag = Number(varint());
    const [field, type] = [Math.floor(tag / 8), tag % 8];
    if (type === 0) {
      fields.set(field, varint());
      continue;
    }
    if (![1, 2, 5].includes(type)) throw new RangeError("another type");
    const length = type === 2 ? Number(varint()) : type === 1 ? 8 : 4;
    if (length > message.length - at) throw new RangeError("cut off");
    fields.set(field, message.subarray(at, at + length));
    at += length;
  }
  return fields;
}

// Reads the stored entry of an archive file, which a receipt of the file has: a protobuf message.
"use strict";

const readFileEntry = (() => {
  // The last millisecond of the year 9999.
  const MAX_TIME_MS = 253_402_300_799_999n;

  class NoEntry extends Error {}

  const demand = (holds) => {
    if (!holds) throw new NoEntry();
  };

  // The fields of a message: numbers, bytes, and null for a number of a fixed size, which no field of an entry is.
  const fieldsOf = (message) => {
    const fields = [];
    let at = 0;
    const varint = () => {
      let value = 0n;
      for (let shift = 0n; shift < 70n; shift += 7n) {
        const byte = message[at];
        at += 1;
        demand(byte !== undefined);
        value |= BigInt(byte & 127) << shift;
        if (byte < 128 && value < 1n << 64n) return value;
      }
      throw new NoEntry();
    };
    while (at < message.length) {
      const tag = Number(varint());
      const [field, type] = [Math.floor(tag / 8), tag % 8];
      demand([0, 1, 2, 5].includes(type) && field >= 1 && field < 2 ** 29);
      if (type === 0) {
        fields.push([field, varint()]);
        continue;
      }
      const length = type === 2 ? Number(varint()) : type === 1 ? 8 : 4;
      demand(length <= message.length - at);
      fields.push([field, type === 2 ? message.subarray(at, at + length) : null]);
      at += length;
    }
    return fields;
  };

  // The value of a field. Libraries differ in what they do with several ones, so they are refused.
  const only = (fields, field, fallback) => {
    const values = fields.filter(([one]) => one === field);
    demand(values.length <= 1);
    return values.length === 1 ? values[0][1] : fallback;
  };

  const number = (fields, field) => {
    const value = only(fields, field, 0n);
    demand(typeof value === "bigint");
    return value;
  };

  const bytes = (fields, field, fallback) => {
    const value = only(fields, field, fallback);
    demand(value instanceof Uint8Array);
    return value;
  };

  const text = (fields, field) => {
    try {
      const value = bytes(fields, field, new Uint8Array());
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
    } catch {
      throw new NoEntry();
    }
  };

  const fileOf = (stored) => {
    const entry = fieldsOf(stored);
    const file = fieldsOf(bytes(entry, 17));
    const recordedAt = number(entry, 2);
    demand(recordedAt <= MAX_TIME_MS);
    return {
      date: text(file, 1), kind: text(file, 2), position: number(file, 3), rows: number(file, 4),
      bytes: number(file, 5), sha256: text(file, 6), recordedAt: new Date(Number(recordedAt)).toISOString(),
    };
  };

  // Gives what the entry says, or undefined if it is of another kind.
  return (stored) => {
    try {
      return fileOf(stored);
    } catch (error) {
      if (error instanceof NoEntry) return undefined;
      throw error;
    }
  };
})();

// Reads the stored entry of an archive file, which a receipt of the file has: a protobuf message.
"use strict";

const readFileEntry = (() => {
  class NoEntry extends Error {}

  const demand = (holds) => {
    if (!holds) throw new NoEntry();
  };

  // The fields of a message: numbers, and the bytes of everything else.
  const fieldsOf = (message) => {
    const fields = new Map();
    let at = 0;
    const varint = () => {
      let number = 0n;
      for (let shift = 0n; shift < 70n; shift += 7n) {
        const byte = message[at];
        at += 1;
        demand(byte !== undefined);
        number |= BigInt(byte & 127) << shift;
        if (byte < 128) return BigInt.asUintN(64, number);
      }
      throw new NoEntry();
    };
    while (at < message.length) {
      const tag = Number(varint());
      const [field, type] = [Math.floor(tag / 8), tag % 8];
      if (type === 0) {
        fields.set(field, varint());
        continue;
      }
      demand([1, 2, 5].includes(type));
      const length = type === 2 ? Number(varint()) : type === 1 ? 8 : 4;
      demand(length <= message.length - at);
      fields.set(field, message.subarray(at, at + length));
      at += length;
    }
    return fields;
  };

  const number = (fields, field) => {
    const value = fields.get(field) ?? 0n;
    demand(typeof value === "bigint");
    return value;
  };

  const text = (fields, field) => {
    const value = fields.get(field) ?? new Uint8Array();
    demand(value instanceof Uint8Array);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
    } catch {
      throw new NoEntry();
    }
  };

  const fileOf = (stored) => {
    const entry = fieldsOf(stored);
    const content = entry.get(17);
    demand(content instanceof Uint8Array);
    const file = fieldsOf(content);
    const recordedAt = new Date(Number(BigInt.asIntN(64, number(entry, 2))));
    demand(!Number.isNaN(recordedAt.getTime()));
    return {
      date: text(file, 1), kind: text(file, 2), position: number(file, 3), rows: number(file, 4),
      bytes: number(file, 5), sha256: text(file, 6), recordedAt: recordedAt.toISOString(),
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

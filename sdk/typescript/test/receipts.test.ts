// Receipts: the vectors of `docs/receipts`.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { canonical } from "../src/canonical.js";
import { type Receipt, ReceiptError, verifyReceipt } from "../src/index.js";

interface Vectors {
  keys: Record<string, string>;
  canonical: { value: unknown; json: string }[];
  documents: { file: string; trusted: string[]; witnesses: string[]; wrong: string | null }[];
}

// This file is in built/test/ when it runs.
const FOLDER = new URL("../../../../docs/receipts/", import.meta.url);
const textOf = (file: string): string => readFileSync(new URL(file, FOLDER), "utf8");
const VECTORS = JSON.parse(textOf("vectors.json")) as Vectors;

test("every vector has its verdict", async () => {
  const kinds = new Set<string>();
  for (const { file, wrong, ...given } of VECTORS.documents) {
    const verifying = verifyReceipt(textOf(file), given);
    if (wrong !== null) {
      await assert.rejects(verifying, (error) => {
        assert(error instanceof ReceiptError, file);
        assert.equal(error.reason, wrong, `${file}: ${error.message}`);
        const isAmbiguous = error.message.includes("two ways: an object has two fields ");
        assert.equal(isAmbiguous, file.startsWith("unreadable/two-"), `${file}: ${error.message}`);
        return true;
      });
      continue;
    }
    const verified = await verifying;
    kinds.add(verified.kind);
    assert.equal(verified.isTrusted, given.trusted.length > 0);
    assert.equal(verified.witnesses.length, given.witnesses.length);
  }
  assert.deepEqual([...kinds].sort(), ["file", "statement", "thesis"]);
});

test("no mutation is valid", async () => {
  const mutations = JSON.parse(textOf("mutations.json")) as { file: string; edits: [number, number, string][] }[];
  assert.equal(mutations.length, 1000);
  for (const { file, edits } of mutations) {
    let content = Buffer.from(textOf(file));
    const { keys } = JSON.parse(textOf(file)) as Receipt;
    for (const [place, removed, inserted] of edits) {
      const rest = content.subarray(place + removed);
      content = Buffer.concat([content.subarray(0, place), Buffer.from(inserted, "base64"), rest]);
    }
    const isRefusal = (error: unknown): boolean => error instanceof ReceiptError;
    const verifying = verifyReceipt(content.toString(), { trusted: keys });
    await assert.rejects(verifying, isRefusal, JSON.stringify({ file, edits }));
  }
});

test("JSON has its canonical form", () => {
  for (const { value, json } of VECTORS.canonical) assert.equal(canonical(value), json);
});

test("it takes a response of the API", async () => {
  const receipt = JSON.parse(textOf("valid/more-fields.json")) as Receipt;
  const trusted = Object.values(VECTORS.keys).slice(0, 1);
  assert.equal((await verifyReceipt(receipt, { trusted })).isTrusted, true);
});

test("a document has one MiB at most", async () => {
  const text = textOf("valid/plain.json");
  const space = " ".repeat((1 << 20) - Buffer.byteLength(text));
  await verifyReceipt(text + space);
  const ofTwoBytes = text.replace("{", `{"later": "${"ä".repeat(1 << 19)}",`);
  for (const tooLarge of [`${text}${space} `, ofTwoBytes]) {
    await assert.rejects(verifyReceipt(tooLarge), { reason: "unreadable" });
  }
});

test("a given key that is malformed is refused with the reason `key`", async () => {
  const { log = "" } = VECTORS.keys;
  for (const keys of [{ trusted: [log, "no key"] }, { trusted: [log.slice(0, -1)] }, { witnesses: ["no key"] }]) {
    await assert.rejects(verifyReceipt(textOf("valid/plain.json"), keys), { reason: "key" });
  }
});

test("the earliest cosignature counts", async () => {
  const witnesses = [VECTORS.keys["witness"] ?? ""];
  const verified = await verifyReceipt(textOf("valid/cosigned-twice.json"), { witnesses });
  assert.equal(verified.witnesses[0]?.at.getTime(), 1_790_000_000_000);
});

test("what is no receipt is unreadable", async () => {
  for (const text of ["[".repeat(1000), "[]", "null", '{"object": ["receipt"]}', "1".repeat(1 << 21)]) {
    const isUnreadable = (error: unknown): boolean => error instanceof ReceiptError && error.reason === "unreadable";
    await assert.rejects(verifyReceipt(text), isUnreadable);
  }
});

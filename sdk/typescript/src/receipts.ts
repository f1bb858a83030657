// Checks receipts and statements offline. They prove that the service recorded a thesis or an archive file, or gave a
// verdict. Anybody can make a log and a key, so get the keys of the service from it (`listLogKeys`), and store them.
import { bytesOf, hexOf, isEqual, sha256 } from "./bytes.js";
import { canonical, parseExact } from "./canonical.js";
import { namedFile } from "./file_entry.js";
import {
  type Checkpoint,
  COSIGNATURE,
  decode,
  type Key,
  MAX_SIGNATURES,
  readCheckpoint,
  readKey,
  readNote,
  readProof,
  rootFrom,
  SIGNATURE,
  signedAt,
} from "./notes.js";
import { demand, ReceiptError } from "./receipt_error.js";
import type { ArchiveReceipt, Receipt, Statement } from "./types.js";

const MAX_BYTES = 1 << 20;
const SALT_BYTES = 16;
const TYPES = ["thesis.created", "thesis.edited", "thesis.deleted"];

/** A third party that cosigned the checkpoint. */
export interface ReceiptWitness {
  readonly name: string;
  /** When it did: it had seen the log by then. */
  readonly at: Date;
}

/** What a valid document proves. */
export interface VerifiedReceipt {
  readonly kind: "thesis" | "file" | "statement";
  /** Of a receipt `evidence` is proven, or the hash of the file; of a statement claim and verdict. */
  readonly document: Receipt | ArchiveReceipt | Statement;
  /** The log. */
  readonly origin: string;
  /** The latter is test data. */
  readonly dataset: "live" | "sandbox";
  /** The number of entries that the checkpoint covers. */
  readonly size: number;
  /** The keys that signed. */
  readonly keys: readonly string[];
  /** Whether a trusted key signed. If not, all this holds only if the key in the document is that of the service. */
  readonly isTrusted: boolean;
  readonly witnesses: readonly ReceiptWitness[];
}

export interface VerifyReceiptOptions {
  /** Keys of the service that you trust. One must have signed; without any, `isTrusted` is false. */
  trusted?: readonly string[] | undefined;
  /** Keys of witnesses, all of which must have cosigned. */
  witnesses?: readonly string[] | undefined;
}

type Document = (Receipt & { entry?: never }) | ArchiveReceipt | Statement;
type FieldType = "any" | "string" | "boolean" | "count" | "strings" | { readonly [name: string]: FieldType };

const OF_RECEIPT = { salt: "string", index: "count", proof: "string", keys: "strings", livemode: "boolean" } as const;
const FIELDS = {
  thesis: { thesis_id: "string", evidence: "any", ...OF_RECEIPT },
  file: { date: "string", kind: "string", sha256: "string", evidence: "string", entry: "string", ...OF_RECEIPT },
  statement: {
    claim: "any",
    verdict: "any",
    checkpoint: "string",
    signature: "string",
    keys: "strings",
    livemode: "boolean",
  },
} as const satisfies Record<string, FieldType>;
const EVIDENCE = {
  type: "string",
  dataset: "string",
  sequence: "count",
  thesis_id: "string",
  profile: { id: "string", handle: "string" },
  token: { id: "string", chain: "string", address: "string", symbol: "string" },
  created_at: "string",
  recorded_at: "string",
} as const satisfies FieldType;

const IS_OF_TYPE = {
  any: (value: unknown) => value !== undefined,
  string: (value: unknown) => typeof value === "string",
  boolean: (value: unknown) => typeof value === "boolean",
  count: (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0,
  strings: (value: unknown) => Array.isArray(value) && value.every((one) => typeof one === "string"),
};

/**
 * Checks a document without any network. Throws a {@link ReceiptError} if it proves nothing, or if a key is malformed.
 *
 * @param document - The text of the file, or what the API gave. The text also tells how numbers are written.
 */
export async function verifyReceipt(
  document: string | Receipt | ArchiveReceipt | Statement,
  { trusted = [], witnesses = [] }: VerifyReceiptOptions = {},
): Promise<VerifiedReceipt> {
  const content = read(document);
  for (const key of [...trusted, ...witnesses]) await readKey(key);
  // The order is that of the command `trade-thesis receipt verify`, so that both name the same fault.
  const isStatement = content.object === "statement";
  const leaf = isStatement ? undefined : await leafOf(content);
  const proof = isStatement ? undefined : readProof(content.proof);
  const checkpoint = isStatement ? readCheckpoint(content.checkpoint) : readProof(content.proof).checkpoint;
  const dataset = datasetOf(checkpoint);
  if (content.object === "receipt" && proof) checkParts(content, proof.index, dataset);
  const isOfDataset = content.livemode === (dataset === "live");
  demand(isOfDataset, "livemode", `livemode is another one than that of ${dataset} data`);
  const keys = await listedKeys(content, checkpoint);
  const isTrusted = trusted.some((key) => content.keys.includes(key));
  demand(isTrusted || trusted.length === 0, "untrusted", "none of the keys that you trust has signed");
  if (isStatement) {
    await checkStatement(content, checkpoint, keys);
  } else if (proof && leaf) {
    demand(proof.index < checkpoint.size, "beyond", "the checkpoint does not reach this entry");
    const root = await rootFrom(leaf, proof.index, checkpoint.size, proof.path);
    const doNotBelong = "evidence and salt do not belong to the hashes of the proof, or one of them was changed";
    demand(isEqual(root, checkpoint.root), "root", doNotBelong);
  }
  return {
    kind: kindOf(content),
    document: content,
    origin: checkpoint.origin,
    dataset,
    size: checkpoint.size,
    keys: content.keys,
    isTrusted,
    witnesses: await Promise.all(witnesses.map((key) => witness(key, checkpoint))),
  };
}

function kindOf(document: Document): VerifiedReceipt["kind"] {
  if (document.object === "statement") return "statement";
  return document.entry === undefined ? "thesis" : "file";
}

/** The fields of a document that is whole. */
function read(given: string | object): Document {
  let document: unknown = given;
  if (typeof given === "string") {
    demand(bytesOf(given).length <= MAX_BYTES, "unreadable", "the document is larger than 1 MiB");
    try {
      document = parseExact(given);
    } catch (error) {
      if (error instanceof ReceiptError) throw error;
      throw new ReceiptError("unreadable", "the document is not JSON, or it is cut off", { cause: error });
    }
  }
  const object = (document as { object?: unknown } | null)?.object;
  const isKnown = object === "receipt" || object === "statement";
  demand(isKnown, "unreadable", "the document is neither a receipt nor a statement");
  const wrong = wrongField(document, FIELDS[kindOf(document as Document)]);
  demand(wrong === undefined, "unreadable", `the field ${wrong} of the document is missing or wrong`);
  return document as Document;
}

/** The path of the first field that is missing or of another type. */
function wrongField(value: unknown, fields: Readonly<Record<string, FieldType>>, path = ""): string | undefined {
  if (value === null || typeof value !== "object") return path || "evidence";
  for (const [name, type] of Object.entries(fields)) {
    const inner = (value as Record<string, unknown>)[name];
    const at = path === "" ? name : `${path}.${name}`;
    const wrong = typeof type === "object" ? wrongField(inner, type, at) : IS_OF_TYPE[type](inner) ? undefined : at;
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function datasetOf({ origin }: Checkpoint): "live" | "sandbox" {
  const [, dataset] = /^trade-thesis\/(live|sandbox)\/[^/]+$/.exec(origin) ?? [];
  demand(dataset === "live" || dataset === "sandbox", "origin", `the log ${origin} is not a log of this service`);
  return dataset;
}

async function leafOf(receipt: Exclude<Document, Statement>): Promise<Uint8Array<ArrayBuffer>> {
  const content = receipt.entry === undefined ? thesisEvidence(receipt) : await fileEvidence(receipt);
  const salt = decode(receipt.salt, "salt", "salt");
  demand(salt.length === SALT_BYTES, "salt", "the salt does not have 16 bytes");
  return sha256(Uint8Array.of(0), await sha256(salt, content));
}

function thesisEvidence({ evidence }: Receipt): string {
  const content = canonical(evidence);
  const wrong = wrongField(evidence, EVIDENCE);
  demand(wrong === undefined, "evidence", `the field ${wrong} of the evidence is missing or wrong`);
  const isKnown = TYPES.includes(String(evidence["type"]));
  demand(isKnown, "evidence", "the evidence is about something that this version does not know");
  const { text } = evidence as { text?: unknown };
  const isText = text === undefined || text === null || typeof text === "string";
  demand(isText, "evidence", "the text of the evidence is no text");
  return content;
}

async function fileEvidence({ entry, evidence }: ArchiveReceipt): Promise<Uint8Array> {
  const stored = decode(entry, "entry", "entry");
  const hash = await sha256(stored);
  demand(hexOf(hash) === evidence, "entry", "the evidence is not the SHA-256 of the entry");
  namedFile(stored);
  return hash;
}

/** Checks that all parts of a receipt are about one entry. */
function checkParts(receipt: Exclude<Document, Statement>, index: number, dataset: string): void {
  if (receipt.entry !== undefined) {
    const named = [receipt.date, receipt.kind, receipt.sha256];
    const own = namedFile(decode(receipt.entry, "entry", "entry"));
    const isSame = own.every((text, at) => text === named[at]);
    demand(isSame, "file", "the entry is about another archive file");
  } else {
    const isSame = receipt.evidence["thesis_id"] === receipt.thesis_id;
    demand(isSame, "thesis", "the evidence is about another thesis");
  }
  demand(index === receipt.index, "index", "the index is not that of the proof, which is of another entry");
  if (receipt.entry !== undefined) return;
  const { sequence, dataset: recorded } = receipt.evidence;
  demand(sequence === index + 1, "sequence", "the sequence number of the evidence is not that of the proven entry");
  demand(recorded === dataset, "dataset", "the evidence is of another dataset than the log");
}

/** The keys that the document lists: each must be one of its log, and have signed the checkpoint. */
async function listedKeys(document: Document, checkpoint: Checkpoint): Promise<Key[]> {
  // The number of signature checks grows with the number of keys.
  const isBounded = document.keys.length > 0 && document.keys.length <= MAX_SIGNATURES;
  demand(isBounded, "keys", `the document lists no key, or more than ${MAX_SIGNATURES} keys`);
  const keys: Key[] = [];
  for (const text of document.keys) {
    const key = await readKey(text);
    const isOfLog = key.type === SIGNATURE && key.name === checkpoint.origin;
    demand(isOfLog, "key", `the key ${key.name} is not one of the log of the checkpoint`);
    const isSigned = (await signedAt(checkpoint, key)) !== undefined;
    demand(isSigned, "unsigned", "the checkpoint is not signed by a key that the document lists");
    keys.push(key);
  }
  return keys;
}

async function checkStatement(statement: Statement, { text }: Checkpoint, keys: readonly Key[]): Promise<void> {
  const tree = text.split("\n").slice(0, 3).join("\n");
  const signed = `trade-thesis statement v1\n${tree}\n${canonical(statement.claim)}\n${canonical(statement.verdict)}\n`;
  const note = readNote(`${signed}\n${statement.signature}`, "statement");
  demand(note.text === signed, "form", "the signature of the statement has another form");
  for (const key of keys) {
    const isSigned = (await signedAt(note, key)) !== undefined;
    demand(isSigned, "unsigned", "the statement is not signed by a key that the document lists");
  }
}

async function witness(text: string, checkpoint: Checkpoint): Promise<ReceiptWitness> {
  const key = await readKey(text);
  const at = await signedAt(checkpoint, key);
  const hasSigned = at !== undefined && key.type === COSIGNATURE;
  demand(hasSigned, "witness", `the witness ${key.name} has not cosigned the checkpoint`);
  return { name: key.name, at: new Date(at * 1000) };
}

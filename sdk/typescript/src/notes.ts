// The formats of C2SP that a receipt has: signed notes, their keys, checkpoints, cosignatures and proofs.
import { bytesOf, fromBase64, hexOf, isSignedBy, sha256 } from "./bytes.js";
import { demand, type ReceiptReason } from "./receipt_error.js";

const PROOF = "c2sp.org/tlog-proof@v1";
export const SIGNATURE = 1;
export const COSIGNATURE = 4;
const HASH_BYTES = 32;
const SIGNATURE_BYTES = 64;
export const MAX_SIGNATURES = 64;
/** The last second of the year 9999. Many languages have no later time. */
const MAX_TIME = 253_402_300_799;
const KEY = /^([^+\p{White_Space}\p{Cc}]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/u;
const SIGNATURE_LINE = /^— ([^+\p{White_Space}\p{Cc}]+) ([A-Za-z0-9+/=]+)$/u;

type Bytes = Uint8Array<ArrayBuffer>;

/** A public key with its name. */
export interface Key {
  readonly text: string;
  readonly name: string;
  readonly id: string;
  readonly type: number;
  readonly content: Bytes;
}

/** A text with its last newline, and its signatures. */
export interface Note {
  readonly text: string;
  readonly signatures: readonly { readonly name: string; readonly id: string; readonly content: Bytes }[];
}

/** Size and root of the tree over a log, signed by the log's key. */
export interface Checkpoint extends Note {
  readonly origin: string;
  readonly size: number;
  readonly root: Bytes;
}

export interface Proof {
  readonly index: number;
  readonly path: readonly Bytes[];
  readonly checkpoint: Checkpoint;
}

/** The bytes of a text in base64. */
export function decode(text: string, what: string, reason: ReceiptReason = "form"): Bytes {
  const content = fromBase64(text);
  demand(content !== undefined, reason, `the ${what} is not base64`);
  return content;
}

/** A whole number without leading zeros. */
function whole(text: string, what: string): number {
  const isWhole = /^(0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(Number(text));
  demand(isWhole, "form", `the ${what} is not a number`);
  return Number(text);
}

/** Reads a key: name, id, and its type before the public key in base64. */
export async function readKey(text: string): Promise<Key> {
  const [, name = "", id, encoded = ""] = KEY.exec(text) ?? [];
  demand(id !== undefined, "key", "a key has the form name+id+key, as the service lists its keys");
  const content = decode(encoded, "key", "key");
  const type = content[0] ?? 0;
  const isKnown = content.length === 1 + HASH_BYTES && (type === SIGNATURE || type === COSIGNATURE);
  demand(isKnown, "key", "a key is not one of Ed25519");
  const hash = await sha256(name, "\n", content);
  demand(hexOf(hash.slice(0, 4)) === id, "key", `the id of the key ${name} does not belong to it`);
  return { text, name, id, type, content: content.slice(1) };
}

/** Reads a signed note. */
export function readNote(note: string, what: string): Note {
  demand(!/[\u0000-\u0009\u000b-\u001f]/.test(note), "form", `the ${what} has control characters`);
  const end = note.lastIndexOf("\n\n");
  demand(end > 0 && note.endsWith("\n"), "form", `the ${what} has no signatures`);
  const lines = note.slice(end + 2, -1).split("\n");
  demand(lines.length <= MAX_SIGNATURES, "form", `the ${what} has too many signatures`);
  const signatures = lines.map((line) => {
    const [, name, encoded = ""] = SIGNATURE_LINE.exec(line) ?? [];
    demand(name !== undefined, "form", `the ${what} has a line that is no signature`);
    const content = decode(encoded, "signature");
    demand(content.length > 4, "form", `a signature of the ${what} is too short`);
    return { name, id: hexOf(content.slice(0, 4)), content: content.slice(4) };
  });
  return { text: note.slice(0, end + 1), signatures };
}

/** Reads a checkpoint. */
export function readCheckpoint(text: string): Checkpoint {
  const note = readNote(text, "checkpoint");
  const [origin = "", size = "", root = "", ...others] = note.text.slice(0, -1).split("\n");
  const isWhole = ![origin, size, root, ...others].includes("");
  demand(isWhole, "form", "the checkpoint lacks its origin, size or root");
  const hash = decode(root, "root");
  demand(hash.length === HASH_BYTES, "form", "the root is not a hash of SHA-256");
  return { ...note, origin, size: whole(size, "size of the tree"), root: hash };
}

/** Reads a proof. */
export function readProof(text: string): Proof {
  const end = text.indexOf("\n\n");
  demand(end > 0, "form", "the proof has no checkpoint");
  const [version, index = "", ...lines] = text.slice(0, end).split("\n");
  demand(version === PROOF, "form", `the proof does not begin with ${PROOF}`);
  demand(index.startsWith("index "), "form", "the proof lacks the index of its leaf");
  const path = lines.map((line) => decode(line, "proof"));
  const areHashes = path.every((hash) => hash.length === HASH_BYTES);
  demand(areHashes, "form", "the proof has a line that is no hash of SHA-256");
  return { index: whole(index.slice("index ".length), "index"), path, checkpoint: readCheckpoint(text.slice(end + 2)) };
}

/** When a key signed a note: 0 for a signature without a time, undefined if it did not. A wrong one is an error. */
export async function signedAt(note: Note, key: Key): Promise<number | undefined> {
  let found: number | undefined;
  for (const { name, id, content } of note.signatures) {
    if (name !== key.name || id !== key.id) continue;
    let [at, message, signature] = [0, note.text, content];
    if (key.type === COSIGNATURE) {
      at = Number(`0x0${hexOf(content.slice(0, 8))}`);
      [message, signature] = [`cosignature/v1\ntime ${at}\n${note.text}`, content.slice(8)];
    }
    const isWhole = signature.length === SIGNATURE_BYTES && at <= MAX_TIME;
    const isValid = isWhole && (await isSignedBy(key.content, signature, bytesOf(message)));
    demand(isValid, "signature", `the signature of ${key.name} is wrong, so it or what it signs was changed`);
    found = Math.min(found ?? at, at);
  }
  return found;
}

/** The root that follows from a leaf and its inclusion proof (RFC 9162, section 2.1.3.2). */
export async function rootFrom(leaf: Bytes, index: number, size: number, path: readonly Bytes[]): Promise<Bytes> {
  let [place, last, root] = [index, size - 1, leaf];
  const entry = `the entry ${index + 1} of ${size}`;
  const wrongLength = `the proof has ${path.length} hashes, and no proof for ${entry} has that many`;
  for (const hash of path) {
    demand(last > 0, "length", wrongLength);
    if (place % 2 === 1 || place === last) {
      root = await sha256(Uint8Array.of(1), hash, root);
      while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)];
    } else {
      root = await sha256(Uint8Array.of(1), root, hash);
    }
    [place, last] = [Math.floor(place / 2), Math.floor(last / 2)];
  }
  demand(last === 0, "length", wrongLength);
  return root;
}

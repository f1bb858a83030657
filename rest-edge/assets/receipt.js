// Verifies a receipt in the browser, without network: canonical JSON (RFC 8785), the Merkle tree of RFC 9162, and the
// signed notes, checkpoints, proofs and cosignatures of C2SP. It refuses the same files as the command.
"use strict";

const receipts = (() => {
  const PROOF = "c2sp.org/tlog-proof@v1";
  const SIGNATURE = 1;
  const COSIGNATURE = 4;
  const HASH_BYTES = 32;
  const SALT_BYTES = 16;
  const MAX_SIGNATURES = 64;
  // The last second of the year 9999. Many languages have no later time.
  const MAX_TIME = 253_402_300_799;
  // A receipt has a few KiB, and few levels. The command has the same limits.
  const MAX_BYTES = 1 << 20;
  const MAX_DEPTH = 127;
  // A parser of Rust reads the text in a field of this name as JSON, and no other parser does.
  const RAW_VALUE = "$serde_json::private::RawValue";
  const encoder = new TextEncoder();

  // A receipt that is wrong. The message is one sentence for people.
  class Invalid extends Error {}

  // A file that is no receipt at all.
  class Unreadable extends Error {}

  const demand = (holds, message) => {
    if (!holds) throw new Invalid(message);
  };

  const refuse = (isUnreadable, message) => {
    if (isUnreadable) throw new Unreadable(message);
  };

  const bytes = (...parts) =>
    Uint8Array.from(parts.flatMap((part) => [...(typeof part === "string" ? encoder.encode(part) : part)]));

  const equal = (one, other) => one.length === other.length && one.every((byte, index) => byte === other[index]);

  const hex = (array) => [...array].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  // Reads standard base64 with padding. `atob` also takes other spellings, and a receipt must have only one.
  const unbase64 = (text, what) => {
    let decoded;
    try {
      decoded = atob(text);
    } catch {
      throw new Invalid(`The ${what} is not base64.`);
    }
    demand(btoa(decoded) === text, `The ${what} is not base64.`);
    return Uint8Array.from(decoded, (letter) => letter.charCodeAt(0));
  };

  const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes(...parts)));

  const leafHash = (content) => sha256(Uint8Array.of(0), content);

  const nodeHash = (left, right) => sha256(Uint8Array.of(1), left, right);

  // Canonical JSON by RFC 8785: names in the order of their UTF-16 code units, and no space. ECMAScript writes texts
  // and numbers as it demands.
  const canonical = (value, path) => {
    if (Array.isArray(value)) return `[${value.map((one, index) => canonical(one, `${path}.${index}`)).join(",")}]`;
    if (value !== null && typeof value === "object") {
      const field = (name) => `${canonical(name, path)}:${canonical(value[name], `${path}.${name}`)}`;
      return `{${Object.keys(value).sort().map(field).join(",")}}`;
    }
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value);
    demand(!isRounded, `The field ${path} has a number that is not whole, or is beyond 2^53 - 1.`);
    return JSON.stringify(value);
  };

  // A whole number without leading zeros.
  const number = (text, what) => {
    demand(/^(0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(Number(text)), `The ${what} is not a number.`);
    return Number(text);
  };

  // The root that follows from a leaf and its inclusion proof (RFC 9162, section 2.1.3.2).
  const rootFrom = async (leaf, index, size, path) => {
    let [place, last, root] = [index, size - 1, leaf];
    const wrongLength = `The proof has ${path.length} hashes, and no proof for the entry ${index + 1} of ${size} ` +
      "entries has that many, so it was changed or is the proof of another entry.";
    for (const hash of path) {
      demand(last > 0, wrongLength);
      if (place % 2 === 1 || place === last) {
        root = await nodeHash(hash, root);
        while (place % 2 === 0 && place !== 0) [place, last] = [place / 2, Math.floor(last / 2)];
      } else {
        root = await nodeHash(root, hash);
      }
      [place, last] = [Math.floor(place / 2), Math.floor(last / 2)];
    }
    demand(last === 0, wrongLength);
    return root;
  };

  // Reads a key: its name, its id in hexadecimal digits, and its type before the public key in base64.
  const readKey = async (text) => {
    const [, name, id, encoded] = text.match(/^([^+\p{White_Space}\p{Cc}]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/u) ?? [];
    demand(encoded !== undefined, "A key has the form name+id+key, as the service lists its keys.");
    const content = unbase64(encoded, "key");
    const [type] = content;
    const isEd25519 = content.length === 1 + HASH_BYTES && [SIGNATURE, COSIGNATURE].includes(type);
    demand(isEd25519, "A key is not one of Ed25519.");
    const hash = await sha256(name, "\n", content);
    demand(hex(hash.slice(0, 4)) === id, `The id of the key ${name} does not belong to it.`);
    return { text, name, id, type, content: content.slice(1) };
  };

  // Reads a signed note: its text with the last newline, and its signatures.
  const readNote = (note, what) => {
    demand(!/[\u0000-\u0009\u000b-\u001f]/.test(note), `The ${what} has control characters.`);
    const end = note.lastIndexOf("\n\n");
    demand(end > 0 && note.endsWith("\n"), `The ${what} has no signatures.`);
    const lines = note.slice(end + 2, -1).split("\n");
    demand(lines.length <= MAX_SIGNATURES, `The ${what} has too many signatures.`);
    const signatures = lines.map((line) => {
      const [, name, encoded] = line.match(/^— ([^+\p{White_Space}\p{Cc}]+) ([A-Za-z0-9+/=]+)$/u) ?? [];
      demand(encoded !== undefined, `The ${what} has a line that is no signature.`);
      const content = unbase64(encoded, "signature");
      demand(content.length > 4, `A signature of the ${what} is too short.`);
      return { name, id: hex(content.slice(0, 4)), content: content.slice(4) };
    });
    return { text: note.slice(0, end + 1), signatures };
  };

  const readCheckpoint = (note) => {
    const { text, signatures } = readNote(note, "checkpoint");
    const [origin, size, root, ...others] = text.slice(0, -1).split("\n");
    const isWhole = origin !== "" && root !== undefined && !others.includes("");
    demand(isWhole, "The checkpoint lacks its origin, size or root.");
    const hash = unbase64(root, "root");
    demand(hash.length === HASH_BYTES, "The root is not a hash of SHA-256.");
    return { text, signatures, origin, size: number(size, "tree's size"), root: hash };
  };

  const readProof = (text) => {
    const end = text.indexOf("\n\n");
    demand(end > 0, "The proof has no checkpoint.");
    const [version, index, ...path] = text.slice(0, end).split("\n");
    demand(version === PROOF, `The proof does not begin with ${PROOF}.`);
    demand(index?.startsWith("index "), "The proof lacks the index of its leaf.");
    return {
      index: number(index.slice("index ".length), "index"),
      path: path.map((line) => {
        const hash = unbase64(line, "proof");
        demand(hash.length === HASH_BYTES, "The proof has a line that is no hash of SHA-256.");
        return hash;
      }),
      checkpoint: readCheckpoint(text.slice(end + 2)),
    };
  };

  const isSignedBy = async (key, message, signature) => {
    let imported;
    try {
      imported = await crypto.subtle.importKey("raw", key.content, { name: "Ed25519" }, false, ["verify"]);
    } catch {
      throw new Unreadable("This browser cannot verify Ed25519 signatures: use a newer one, or the command.");
    }
    return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, message);
  };

  // The signatures of a note by one of these keys. One that does not verify makes the whole note wrong.
  const signaturesBy = async (note, keys) => {
    const found = [];
    for (const signature of note.signatures) {
      const key = keys.find(({ name, id }) => name === signature.name && id === signature.id);
      if (!key) continue;
      let [message, content, time] = [bytes(note.text), signature.content, 0];
      if (key.type === COSIGNATURE) {
        time = Number(`0x0${hex(content.slice(0, 8))}`);
        message = bytes(`cosignature/v1\ntime ${time}\n`, note.text);
        content = content.slice(8);
      }
      const isRight = content.length === 64 && time <= MAX_TIME && (await isSignedBy(key, message, content));
      demand(isRight, `The signature of ${key.name} is wrong, so it or what it signs was changed.`);
      found.push({ key, time });
    }
    return found;
  };

  // The fields of each kind of document, with their types. Where any value is allowed, a later check reads it.
  const FIELDS = {
    receipt: {
      thesis_id: "string", evidence: "any", salt: "string", index: "count", proof: "string", keys: "strings",
      livemode: "boolean",
    },
    statement: { claim: "any", verdict: "any", checkpoint: "string", signature: "string",
      keys: "strings", livemode: "boolean" },
  };
  const PROFILE = { id: "string", handle: "string" };
  const TOKEN = { id: "string", chain: "string", address: "string", symbol: "string" };
  const EVIDENCE = {
    type: "string", dataset: "string", sequence: "count", thesis_id: "string", profile: PROFILE, token: TOKEN,
    created_at: "string", recorded_at: "string",
  };
  const TYPES = ["thesis.created", "thesis.edited", "thesis.deleted"];
  // The receipt of an archive file names the file in place of a thesis, and has the stored entry of the log.
  const FILE_FIELDS = {
    date: "string", kind: "string", sha256: "string", evidence: "string", entry: "string", salt: "string",
    index: "count", proof: "string", keys: "strings", livemode: "boolean",
  };
  const isOfFile = ({ object, entry }) => object === "receipt" && entry !== undefined;

  const IS_OF_TYPE = {
    any: (value) => value !== undefined,
    string: (value) => typeof value === "string",
    boolean: (value) => typeof value === "boolean",
    count: (value) => Number.isSafeInteger(value) && value >= 0,
    strings: (value) => Array.isArray(value) && value.every((one) => typeof one === "string"),
  };

  // The path of the first field that is missing, or has another type.
  const wrongField = (value, fields, path = "") => {
    if (value === null || typeof value !== "object") return path;
    for (const [name, type] of Object.entries(fields)) {
      const [field, at] = [value[name], path === "" ? name : `${path}.${name}`];
      const wrong = typeof type === "object" ? wrongField(field, type, at) : IS_OF_TYPE[type](field) ? undefined : at;
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  };

  // Reads JSON as the command does. It refuses what `JSON.parse` rounds: a number that is not written as a whole one
  // becomes 0.5, which no field may have. It also refuses two fields of one name, of which `JSON.parse` keeps the last,
  // other texts that readers understand differently, numbers that it makes infinite, and halves of surrogate pairs.
  const parse = (text) => {
    JSON.parse(text);
    // The names of each object that is open; a list has none.
    const open = [];
    const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[[{\]}]|-?[0-9][0-9.eE+-]*/g;
    const exact = text.replace(tokens, (token, colon) => {
      if (token === "[" || token === "{") open.push(new Set());
      if (token === "]" || token === "}") open.pop();
      refuse(open.length > MAX_DEPTH, `The file is not readable: it has more than ${MAX_DEPTH} levels.`);
      if (colon !== undefined) {
        const [names, name] = [open.at(-1), JSON.parse(token.slice(0, -colon.length))];
        const inTwoWays = "The file can be read in two ways: an object has";
        refuse(names.has(name), `${inTwoWays} two fields ${JSON.stringify(name)}.`);
        refuse(name === RAW_VALUE, `${inTwoWays} the field "${name}".`);
        names.add(name);
      }
      const isNumber = /^-?[0-9]/.test(token);
      refuse(isNumber && !Number.isFinite(Number(token)), "The file is not JSON: it has a number that is too large.");
      return isNumber && !/^(0|-?[1-9][0-9]*)$/.test(token) ? "0.5" : token;
    });
    return JSON.parse(exact, (name, value) => {
      const isWhole = name.isWellFormed() && (typeof value !== "string" || value.isWellFormed());
      refuse(!isWhole, "The file is not JSON: a text has an incomplete character.");
      return value;
    });
  };

  // Reads a file. One that is no receipt and no statement is unreadable.
  const read = (content) => {
    let text, document;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    } catch {
      throw new Unreadable("The file is not a text in UTF-8.");
    }
    refuse(text.trim() === "", "The file is empty.");
    try {
      document = parse(text);
    } catch (error) {
      if (error instanceof Unreadable) throw error;
      // A file that was cut off does not end with a brace, unless the cut is behind an inner object.
      const isCutOff = text.trimStart().startsWith("{") && !text.trimEnd().endsWith("}");
      throw new Unreadable(`The file is ${isCutOff ? "cut off: its JSON has no end" : "not JSON, or it is cut off"}.`);
    }
    const [, fields] = Object.entries(FIELDS).find(([object]) => object === document?.object) ?? [];
    refuse(!fields, "The file is neither a receipt nor a statement.");
    const wrong = wrongField(document, isOfFile(document) ? FILE_FIELDS : fields);
    const sentence = `The file is no complete ${document.object}: its field ${wrong} is missing or wrong.`;
    refuse(wrong !== undefined, sentence);
    return document;
  };

  // The keys that a document lists. Each must be a key of this log, and must have signed the checkpoint.
  const listedKeys = async ({ object, keys: listed }, checkpoint) => {
    demand(listed.length > 0 && listed.length <= MAX_SIGNATURES, `The ${object} lists no key, or more than 64 keys.`);
    const keys = [];
    for (const text of listed) {
      const key = await readKey(text);
      demand(key.type === SIGNATURE, `The key ${key.name} is that of a witness, and a log signs with another kind.`);
      demand(key.name === checkpoint.origin, `The key ${key.name} is of another log than the checkpoint.`);
      const signatures = await signaturesBy(checkpoint, [key]);
      demand(signatures.length > 0, "The checkpoint is not signed by a key that the file lists.");
      keys.push(key);
    }
    return keys;
  };

  // The dataset of a log of this service.
  const datasetOf = ({ origin }) => {
    const [, dataset] = origin.match(/^trade-thesis\/(live|sandbox)\/[^/]+$/) ?? [];
    demand(dataset !== undefined, `The log ${origin} is not a log of this service.`);
    return dataset;
  };

  const checkLivemode = ({ livemode }, dataset) =>
    demand(livemode === (dataset === "live"), `The file says livemode ${livemode}, but its log is of ${dataset} data.`);

  // Checks the entry of an archive file against the evidence, which is its hash. Gives what the entry says, and the hash.
  const entryOf = async ({ entry, evidence }) => {
    const stored = unbase64(entry, "entry");
    const hash = await sha256(stored);
    demand(hex(hash) === evidence, "The evidence is not the SHA-256 of the entry.");
    const file = readFileEntry(stored);
    demand(file !== undefined, "The entry is not that of an archive file.");
    return { ...file, hash };
  };

  // The bytes of the evidence of a thesis.
  const evidenceOf = ({ evidence }) => {
    const content = canonical(evidence, "evidence");
    const wrong = wrongField(evidence, EVIDENCE, "evidence");
    demand(wrong === undefined, `The evidence is not complete: its field ${wrong} is missing or wrong.`);
    demand(TYPES.includes(evidence.type), "The evidence is about something that this page does not know.");
    const { text } = evidence;
    demand(text === undefined || text === null || typeof text === "string", "The text of the evidence is no text.");
    return content;
  };

  // Checks the salt, and gives the leaf of the tree.
  const leafOf = async (salt, content) => {
    const salted = unbase64(salt, "salt");
    demand(salted.length === SALT_BYTES, "The salt does not have 16 bytes.");
    return leafHash(await sha256(salted, content));
  };

  // Checks that the parts of a receipt are about one entry.
  const checkParts = (receipt, file, { index }, dataset) => {
    const { evidence } = receipt;
    if (file) {
      const isSame = ["date", "kind", "sha256"].every((field) => file[field] === receipt[field]);
      demand(isSame, "The receipt names another archive file than its entry.");
    } else {
      demand(evidence.thesis_id === receipt.thesis_id, "The receipt names another thesis than its evidence.");
    }
    demand(index === receipt.index, "The index of the receipt is not that of its proof, which is of another entry.");
    if (!file) {
      demand(evidence.sequence === index + 1, "The sequence number of the evidence is not that of the proven entry.");
      demand(evidence.dataset === dataset, "The evidence is of another dataset than the log.");
    }
    checkLivemode(receipt, dataset);
  };

  // Checks that the tree has the leaf.
  const checkTree = async (leaf, { index, path, checkpoint }) => {
    demand(index < checkpoint.size, "The checkpoint does not reach this entry.");
    demand(
      equal(await rootFrom(leaf, index, checkpoint.size, path), checkpoint.root),
      "The evidence and the salt do not belong to the hashes of the proof, which do not lead from them to the root " +
        "of the checkpoint: one of the three was changed, or the hashes are those of another entry.",
    );
  };

  const checkStatement = async (statement, { text }, keys) => {
    const lines = text.split("\n").slice(0, 3).join("\n");
    const [claim, verdict] = [canonical(statement.claim, "claim"), canonical(statement.verdict, "verdict")];
    const signed = `trade-thesis statement v1\n${lines}\n${claim}\n${verdict}\n`;
    const note = readNote(`${signed}\n${statement.signature}`, "statement");
    demand(note.text === signed, "The signature of the statement has another form.");
    for (const key of keys) {
      demand((await signaturesBy(note, [key])).length > 0, "The statement is not signed by a key that the file lists.");
    }
  };

  // Verifies a document with the keys that the reader trusts, those of logs and of witnesses. Gives what it proves. The
  // order is that of the command, so both name the same fault.
  const verify = async (document, trusted) => {
    const isReceipt = document.object === "receipt";
    const file = isOfFile(document) ? await entryOf(document) : undefined;
    const leaf = isReceipt ? await leafOf(document.salt, file?.hash ?? evidenceOf(document)) : undefined;
    const proof = isReceipt ? readProof(document.proof) : { checkpoint: readCheckpoint(document.checkpoint) };
    const { checkpoint } = proof;
    const dataset = datasetOf(checkpoint);
    if (isReceipt) checkParts(document, file, proof, dataset);
    else checkLivemode(document, dataset);
    const keys = await listedKeys(document, checkpoint);
    const logs = trusted.filter(({ type }) => type === SIGNATURE);
    const isTrusted = logs.some(({ text }) => document.keys.includes(text));
    demand(isTrusted || logs.length === 0, "The file is signed by none of the keys that you trust.");
    if (isReceipt) await checkTree(leaf, proof);
    else await checkStatement(document, checkpoint, keys);
    const witnesses = [];
    for (const key of trusted.filter(({ type }) => type === COSIGNATURE)) {
      const times = (await signaturesBy(checkpoint, [key])).map(({ time }) => time);
      demand(times.length > 0, `The witness ${key.name} has not cosigned the checkpoint.`);
      witnesses.push({ name: key.name, time: Math.min(...times) });
    }
    const sequence = isReceipt ? proof.index + 1 : undefined;
    return { document, isReceipt, file, sequence, checkpoint, dataset, keys, isTrusted, witnesses };
  };

  return { Invalid, Unreadable, MAX_BYTES, read, readKey, verify };
})();

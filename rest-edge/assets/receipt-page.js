// The page around `receipts`: a file that is chosen or dropped is verified at once, and again when the keys change.
"use strict";

const byId = (id) => document.getElementById(id);
const KINDS = { "thesis.created": "Posted", "thesis.edited": "Edited", "thesis.deleted": "Deleted" };
let last = 0;

// A key that the reader typed is none, which says nothing about the file.
class WrongKey extends Error {}

const shownTime = (seconds) => new Date(seconds * 1000).toISOString();

const fill = (list, texts) => byId(list).replaceChildren(...texts.map((text) => {
  const item = document.createElement("li");
  item.textContent = text;
  return item;
}));

const facts = (rows) => byId("facts").replaceChildren(...rows.flatMap(([name, value]) => {
  const [term, description] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  description.textContent = value;
  // Texts of people have their own direction, and must not change that of the page.
  description.dir = "auto";
  return [term, description];
}));

// Whoever made the file may have made its key, so without a trusted one the service may have said nothing.
const sayCondition = ({ isTrusted, keys }) =>
  isTrusted
    ? "Signed by a key that you trust: "
    : `If the key ${keys.map(({ text }) => text).join(" or ")} is the service's: `;

// What is proven, in a sentence for the verdict and in more for the list.
const sayProven = (proven) => {
  const { document: { evidence }, isReceipt, file, sequence, checkpoint: { origin, size }, witnesses } = proven;
  const seen = witnesses.map(({ name, time }) => `The witness ${name} had seen this log by ${shownTime(time)}.`);
  if (!isReceipt) {
    return [
      `${sayCondition(proven)}the service signed this verdict about this claim, after it had read the checkpoint of ` +
        `its log ${origin} with ${size} entries.`,
      ...seen,
    ];
  }
  return [
    `${sayCondition(proven)}the service recorded this as entry ${sequence} of its log ${origin}.`,
    `The signed tree of ${size} entries has it as entry ${sequence}; a later rewrite would contradict this ` +
      "signature.",
    `The service recorded it at ${file?.recordedAt ?? evidence.recorded_at}, by its own clock.`,
    ...seen,
  ];
};

const FILE_LIMITS = [
  "That your copy is this file: compare its SHA-256.",
  "That the file is the newest: after the text of a deleted thesis was erased, a later entry may have another hash.",
];

const sayUnproven = ({ document: { evidence }, isReceipt, file, dataset, isTrusted, witnesses }) => [
  ...(file
    ? FILE_LIMITS
    : isReceipt
    ? [
      "Who controls the account, or that the text is true.",
      "The time of the post: it is what the platform said.",
      ...(evidence.type === "thesis.deleted"
        ? []
        : ["That the thesis still stands: a later entry may have edited or deleted it."]),
    ]
    : ["Anything but the service's answer: nothing can prove that a thesis does not exist."]),
  ...(witnesses.length > 0 ? [] : ["That others saw the log at that time: name the key of a witness to check it."]),
  ...(dataset === "sandbox" ? ["Anything about real people: the log is of the sandbox, so this is test data."] : []),
  ...(isTrusted
    ? []
    : [
      "That the service made this file: whoever made it may have made its key. Compare the key below with those that " +
        "the service lists, or name a key that you trust.",
    ]),
];

const fileFacts = ({ kind, date, rows, bytes, sha256, recordedAt }) => [
  ["What happened", "The archive file was built"],
  ["File", `${kind} of ${date}`],
  ["Rows", String(rows)],
  ["Bytes", String(bytes)],
  ["SHA-256", sha256],
  ["Recorded by the service", recordedAt],
];

const sayFacts = ({ document: { evidence, claim, verdict }, isReceipt, file, checkpoint, keys }) => [
  ...(file
    ? fileFacts(file)
    : isReceipt
    ? [
      ["What happened", KINDS[evidence.type]],
      ["Author", `${evidence.profile.handle} (${evidence.profile.id})`],
      ["Token", `${evidence.token.symbol}, ${evidence.token.address} on ${evidence.token.chain}`],
      ...(typeof evidence.text === "string" ? [["Text", evidence.text]] : []),
      ["Posted, as the platform says", evidence.created_at],
      ["Recorded by the service", evidence.recorded_at],
      ["Thesis", evidence.thesis_id],
    ]
    : [["Claim", JSON.stringify(claim, null, 1)], ["Verdict", JSON.stringify(verdict, null, 1)]]),
  ["Log", checkpoint.origin],
  ["Signed by", keys.map(({ text }) => text).join("\n")],
];

const show = (className, badge, sentence, proven) => {
  byId("badge").className = `badge ${className}`;
  byId("badge").textContent = badge;
  byId("sentence").textContent = sentence;
  if (proven) {
    fill("proven", sayProven(proven));
    fill("unproven", sayUnproven(proven));
    facts(sayFacts(proven));
  }
  byId("content").hidden = !proven;
};

const check = async (file) => {
  if (!globalThis.crypto?.subtle) {
    throw new receipts.Unreadable(
      "This browser verifies nothing on a page without https: save the page, and open it from your disk.",
    );
  }
  const trusted = [];
  for (const text of byId("keys").value.split(/\p{White_Space}+/u).filter((word) => word !== "")) {
    try {
      trusted.push(await receipts.readKey(text));
    } catch (error) {
      throw new WrongKey(`One of the keys that you trust is not readable. ${error.message}`);
    }
  }
  if (file.size > receipts.MAX_BYTES) {
    throw new receipts.Unreadable("The file is larger than 1 MiB, and a receipt has a few KiB.");
  }
  return receipts.verify(receipts.read(await file.arrayBuffer()), trusted);
};

const run = async () => {
  const [file] = byId("file").files;
  if (!file) return;
  const turn = ++last;
  let outcome;
  try {
    const proven = await check(file);
    outcome = [proven.isTrusted ? "good" : "warn", "Valid", sayProven(proven)[0], proven];
  } catch (error) {
    if (error instanceof receipts.Invalid) outcome = ["bad", "Not valid", error.message];
    else if (error instanceof WrongKey) outcome = ["warn", "Key not readable", error.message];
    else if (error instanceof receipts.Unreadable) outcome = ["warn", "Not readable", error.message];
    else outcome = ["warn", "Not readable", `The file cannot be checked here: ${error.message}`];
  }
  // A later file or key decides.
  if (turn === last) show(...outcome);
};

byId("file").addEventListener("change", run);
byId("keys").addEventListener("input", run);
byId("question").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  byId("drop").classList.add("over");
});
document.addEventListener("dragleave", () => byId("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  byId("drop").classList.remove("over");
  if (event.dataTransfer.files.length === 0) return;
  byId("file").files = event.dataTransfer.files;
  run();
});

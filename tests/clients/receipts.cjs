// Checks receipts in Chromium: the test vectors and a receipt of the running service. It does so on the page that the
// service serves, and on a copy on the disk without network.
const assert = require("node:assert/strict");
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { pathToFileURL } = require("node:url");
const { base, look, open, person, walk } = require("./browser.cjs");

// The folder of the vectors, and a file with a receipt of the service and its keys, if there is one.
const [, vectors, live] = process.argv.slice(2);
const { documents } = JSON.parse(readFileSync(join(vectors, "vectors.json"), "utf8"));
const EXPECTED = (wrong) => ({ null: "Valid", unreadable: "Not readable" })[wrong] ?? "Not valid";

// What the sentence says of each word of the vectors.
const PHRASES = {
  unreadable: /is empty|cut off|not JSON|127 levels|can be read in two ways|neither a receipt nor|is no complete receipt/,
  number: /The field evidence\.\S+ has a number that is not whole/,
  evidence: /evidence is not complete/,
  salt: /salt does not have 16 bytes|salt is not base64/,
  form: new RegExp(
    "no checkpoint|no signatures|line that is no signature|not base64|another form|lacks its|is not a number|" +
      "too many signatures|control characters|signature of the checkpoint is too short|proof does not begin with",
  ),
  origin: /not a log of this service/,
  thesis: /another thesis than its evidence/,
  entry: /not the SHA-256 of the entry|not that of an archive file|entry is not base64/,
  file: /another archive file than its entry/,
  index: /index of the receipt/,
  sequence: /sequence number/,
  dataset: /another dataset than the log/,
  livemode: /says livemode/,
  beyond: /does not reach this entry/,
  length: /^The proof has \d+ hashes, and no proof for the entry \d+ of \d+ entries has that many/,
  root: /^The evidence and the salt do not belong to the hashes of the proof/,
  keys: /lists no key/,
  key: /id of the key .* does not belong|A key has the form/,
  unsigned: /not signed by a key that the file lists/,
  signature: /signature of .* is wrong/,
  untrusted: /none of the keys that you trust/,
  witness: /has not cosigned/,
};

// What the page says of a file.
async function judged(page, address, file, keys) {
  await page.goto(address);
  await page.getByLabel("Keys that you trust").fill(keys.join("\n"));
  await page.getByLabel("Receipt", { exact: true }).setInputFiles(file);
  await page.locator("#badge", { hasText: /./ }).waitFor();
  return { badge: await page.locator("#badge").textContent(), sentence: await page.locator("#sentence").textContent() };
}

async function judgesAll(page, address) {
  for (const { file, trusted, witnesses, wrong } of documents) {
    const { badge, sentence } = await judged(page, address, join(vectors, file), [...trusted, ...witnesses]);
    assert.equal(badge, EXPECTED(wrong), `${file}: ${sentence}`);
    const isTrusted = trusted.length > 0;
    const condition = isTrusted ? /^Signed by a key that you trust: / : /^If the key \S+ is the service's: /;
    assert.match(sentence, wrong === null ? condition : PHRASES[wrong], file);
    if (file === "unreadable/cut-off.json") assert.match(sentence, /^The file is cut off: /);
    if (file.startsWith("unreadable/two-")) assert.match(sentence, /^The file can be read in two ways: an object has /);
    if (wrong === null) {
      assert.equal(await page.locator("#badge").getAttribute("class"), `badge ${isTrusted ? "good" : "warn"}`, file);
    }
  }
}

// The verifier of the page refuses every mutation, and says why.
async function refusesMutations(page) {
  await page.goto("/verify");
  const mutations = JSON.parse(readFileSync(join(vectors, "mutations.json"), "utf8"));
  const files = mutations.map(({ file, edits }) => {
    let content = readFileSync(join(vectors, file));
    const { keys } = JSON.parse(content);
    for (const [place, removed, inserted] of edits) {
      const rest = content.subarray(place + removed);
      content = Buffer.concat([content.subarray(0, place), Buffer.from(inserted, "base64"), rest]);
    }
    return { file, edits, keys, content: content.toString("base64") };
  });
  assert.equal(files.length, 1000);
  const accepted = await page.evaluate(async (all) => {
    const wrong = [];
    for (const { file, edits, keys, content } of all) {
      const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
      try {
        const trusted = await Promise.all(keys.map((key) => receipts.readKey(key)));
        await receipts.verify(receipts.read(bytes), trusted);
        wrong.push({ file, edits });
      } catch (error) {
        const isRefusal = error instanceof receipts.Invalid || error instanceof receipts.Unreadable;
        if (!isRefusal) wrong.push({ file, edits, error: String(error) });
      }
    }
    return wrong;
  }, files);
  assert.deepEqual(accepted, []);
}

// A text of somebody else is shown as it is, and is never a part of the page.
async function shows(page, name) {
  const file = join(vectors, `valid/${name}.json`);
  await judged(page, "/verify", file, []);
  const text = JSON.parse(readFileSync(file, "utf8")).evidence.text;
  const shown = await page.locator("#facts dd").evaluateAll((all) => all.map(({ textContent }) => textContent));
  assert.ok(shown.includes(text), name);
}

async function dropped(page) {
  await page.goto("/verify");
  const text = readFileSync(join(vectors, "valid/umlauts.json"), "utf8");
  await page.evaluate((content) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([content], "receipt.json", { type: "application/json" }));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, text);
  await page.locator("#badge", { hasText: /^Valid$/ }).waitFor();
}

// A key that is typed later is checked too.
async function typed(page) {
  const witnessed = documents.find(({ file }) => file === "valid/witnessed.json");
  await judged(page, "/verify", join(vectors, "valid/plain.json"), []);
  await page.locator("#unproven").getByText("may have made its key").waitFor();
  await page.getByLabel("Keys that you trust").fill(witnessed.trusted.join());
  await page.locator("#unproven").getByText("may have made its key").waitFor({ state: "detached" });
  await page.getByLabel("Keys that you trust").fill("no key");
  await page.locator("#badge", { hasText: /^Key not readable$/ }).waitFor();
}

// The page has the limits of the command.
async function bounded(page) {
  const plain = readFileSync(join(vectors, "valid/plain.json"), "utf8");
  const deep = (levels) => plain.replace("{", `{"later": ${"[".repeat(levels)}${"]".repeat(levels)},`);
  const files = [[deep(126), "Valid"], [deep(127), "Not readable"], [`${plain}${" ".repeat(1 << 20)}`, "Not readable"]];
  for (const [content, expected] of files) {
    const file = { name: "receipt.json", mimeType: "application/json", buffer: Buffer.from(content) };
    const { badge, sentence } = await judged(page, "/verify", file, []);
    assert.equal(badge, expected, sentence);
  }
}

async function onDisk(browser) {
  const folder = mkdtempSync(join(tmpdir(), "verify-"));
  const context = await browser.newContext();
  try {
    const copy = join(folder, "verify.html");
    writeFileSync(copy, await (await fetch(`${base}/verify`)).text());
    await context.setOffline(true);
    const page = await context.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(`${error}`));
    page.on("request", (request) => request.url().startsWith("file:") || faults.push(`it asks ${request.url()}`));
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    await judgesAll(page, pathToFileURL(copy).href);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
    rmSync(folder, { recursive: true });
  }
}

walk(async (browser) => {
  const reader = await person(browser);
  const { page } = reader;
  await open(reader, "/verify", "verify a receipt");
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await judgesAll(page, "/verify");
  for (const name of ["umlauts", "emoji", "right-to-left", "2000-characters", "escapes"]) await shows(page, name);
  for (const [name, file] of [["a valid receipt", "valid/right-to-left"], ["a wrong receipt", "invalid/changed-text"],
    ["a statement", "valid/statement"], ["a receipt of a file", "valid/archive-file"], ["no receipt", "unreadable/cut-off"]]) {
    await judged(page, "/verify", join(vectors, `${file}.json`), []);
    await look(reader, name);
  }
  await dropped(page);
  await typed(page);
  await bounded(page);
  await refusesMutations(page);
  if (live) {
    const { keys } = JSON.parse(readFileSync(live, "utf8"));
    const { badge, sentence } = await judged(page, "/verify", live, keys);
    assert.equal(badge, "Valid", sentence);
  }
  assert.deepEqual(asked.filter((url) => url !== `${base}/verify`), [], "the page uses the network");
  await onDisk(browser);
  assert.deepEqual(reader.faults, []);
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

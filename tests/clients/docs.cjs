// A reader in Chromium: the home page, every page of the documentation, the choice of a language, copies, the search by keyboard
// alone, the table of contents, requests that are tried in the reference, and a test key that the examples show.
const assert = require("node:assert/strict");
const { base, look, open, person, seen, walk } = require("./browser.cjs");

const [, key] = process.argv.slice(2);
// Pages of operations have one form, so a few of them tell of all.
const OPERATIONS = ["getThesis", "listTheses", "createWebhook", "streamEvents", "openWebSocket", "getTile", "onThesisCreated"];

const hrefs = ({ page }, links) => page.locator(links).evaluateAll((all) => all.map((link) => link.getAttribute("href")));

// Waits until something holds, for ten seconds at most.
async function until(what, holds) {
  for (const deadline = Date.now() + 10_000; !(await holds()); await new Promise((next) => setTimeout(next, 50))) {
    assert.ok(Date.now() < deadline, what);
  }
}

// The language that is chosen once is shown everywhere, here and on the next page. What is copied is what is shown.
async function languages({ page }) {
  await page.goto("/docs/quick-start");
  const shown = () => page.locator(".code pre:visible code").evaluateAll((codes) => codes.map(({ className }) => className));
  assert.ok((await shown()).every((language) => language === "sh"));
  await page.locator(".code").first().getByText("Python", { exact: true }).click();
  assert.ok((await shown()).every((language) => language === "python"));
  await page.goto("/docs/webhooks");
  assert.ok((await shown()).filter((language) => language === "python").length > 0);
  const copied = () => page.evaluate("navigator.clipboard.readText()");
  const block = page.locator(".code").first();
  await block.getByRole("button", { name: "Copy" }).click();
  const code = await block.locator("pre:visible").textContent();
  await until("the code is copied", async () => (await copied()) === code);
  await page.getByRole("button", { name: "Copy as Markdown" }).click();
  const markdown = await (await fetch(`${base}/docs/webhooks.md`)).text();
  await until("the page is copied", async () => (await copied()) === markdown);
}

// Events come by themselves until the visitor pauses them.
async function home(someone) {
  const { page } = someone;
  await open(someone, "/", "home");
  assert.equal(await page.locator("#events li").count(), 12);
  const read = () => page.waitForResponse((answer) => answer.url().endsWith("/home/events"));
  assert.ok([200, 304].includes((await read()).status()));
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Continue" }).waitFor();
  await Promise.all([read(), page.getByRole("button", { name: "Continue" }).click()]);
}

// The search is used by keyboard alone, and asks for its index once.
async function searched(reader) {
  const { page } = reader;
  await page.goto("/docs");
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const query = page.locator("#finder-query");
  const found = async (text, path) => {
    await page.keyboard.press("/");
    await page.keyboard.type(text);
    const first = page.locator("#finder-found [role=option]").first();
    await until(`${text} is found`, async () => (await first.count()) > 0 && (await first.getAttribute("href")) === path);
    assert.equal(await query.getAttribute("aria-activedescendant"), "finder-found-0");
  };
  await found("listTheses", "/docs/reference/listTheses");
  await look(reader, "search");
  await page.keyboard.press("ArrowDown");
  assert.equal(await query.getAttribute("aria-activedescendant"), "finder-found-1");
  await page.keyboard.press("Escape");
  await page.locator(".finder").waitFor({ state: "hidden" });
  await found("invalid_cursor", "/docs/errors#invalid_cursor");
  assert.deepEqual(asked.filter((path) => path.startsWith("/docs")), ["/docs/search.json"]);
  // It opens again before the page is drawn without it.
  const reopened = () => page.evaluate(() => {
    document.querySelector(".finder").close();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
    return document.querySelector(".finder").open;
  });
  assert.ok(await reopened());
  // It works without the network, too.
  await page.context().setOffline(true);
  await page.keyboard.press("Escape");
  await page.locator(".finder").waitFor({ state: "hidden" });
  await found("deleteWebhook", "/docs/reference/deleteWebhook");
  await page.context().setOffline(false);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/docs/reference/deleteWebhook");
}

// The table of contents follows the reader, and pages lead to each other.
async function read({ page }) {
  await page.setViewportSize({ width: 1440, height: 800 });
  await page.goto("/docs/errors");
  const here = () => page.locator(".toc [aria-current]").evaluateAll((all) => all.map((link) => link.hash).join());
  for (const part of ["rate_limited", "invalid_cursor"]) {
    await page.evaluate((id) => document.getElementById(id).scrollIntoView(), part);
    await until(`the contents follow to ${part}`, async () => (await here()) === `#${part}`);
  }
  await page.goto("/docs/quick-start");
  await page.getByRole("link", { name: /^Next/ }).click();
  await page.waitForURL("**/docs/keys-and-environments");
  await page.getByRole("link", { name: /^Previous/ }).click();
  await page.waitForURL("**/docs/quick-start");
}

// A page is printed on white, with its code in each language and without what only a screen can use.
async function printed({ page }) {
  await page.goto("/docs/streams");
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  for (const part of [".bar", ".docs-bar", ".pages", ".toc", ".copies", ".copy", ".neighbours", ".foot"]) {
    assert.ok((await page.locator(part).count()) > 0, part);
    assert.equal(await page.locator(part).locator("visible=true").count(), 0, part);
  }
  const blocks = page.locator(".code").first().locator("pre");
  const shown = await blocks.evaluateAll((all) => all.map((block) => block.checkVisibility()));
  assert.ok(shown.length > 1 && shown.every(Boolean), `${shown}`);
  const [red, green, blue] = await page.evaluate(() => getComputedStyle(document.body).color.match(/\d+/g).map(Number));
  assert.ok(Math.max(red, green, blue) < 64, "the text is dark");
  await page.emulateMedia({ media: null, colorScheme: null });
}

// The examples have the key that was made in this tab until it is forgotten, and no other one.
async function filled({ page }) {
  const codes = () => page.locator("pre code").allTextContents();
  await page.goto("/docs/reference/listTheses");
  assert.ok((await codes()).some((code) => code.includes("Bearer svc_test_…")));
  await page.evaluate((made) => sessionStorage.setItem("docs-key", made), key);
  await page.reload();
  assert.ok((await codes()).some((code) => code.includes(`Bearer ${key}`)));
  await page.getByRole("button", { name: "Forget it" }).click();
  assert.ok((await codes()).every((code) => !code.includes(key)));
  assert.equal(await page.evaluate("sessionStorage.length"), 0);
  assert.equal(await page.locator("#try-key").inputValue(), "");
  await page.evaluate(() => sessionStorage.setItem("docs-key", "svc_live_1"));
  await page.reload();
  assert.ok((await codes()).every((code) => !code.includes("svc_live_1")));
  await page.evaluate("sessionStorage.clear()");
}

// A request is sent from the page with the reader's key, which a reload keeps. A stream ends by itself, or when it is stopped.
async function tried({ page }) {
  const send = () => page.getByRole("button", { name: "Send" }).click();
  const status = page.locator(".try .status");
  await page.goto("/docs/reference/getMe");
  await page.locator("#try-key").fill(key);
  await send();
  await status.getByText(/^200 after/).waitFor();
  // The body arrives after the status.
  await page.locator(".try .result").getByText('"environment": "test"').waitFor();
  await page.reload();
  assert.equal(await page.locator("#try-key").inputValue(), key);
  await page.goto("/docs/reference/streamEvents");
  await send();
  await page.locator(".try .result").getByText("stream.end").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" });
  for (const name of ["from", "to"]) await page.locator(`#try-query-${name}`).fill("");
  await send();
  await page.locator(".try .result").getByText("stream.cursor").first().waitFor();
  const open = async () => {
    const answer = await fetch(`${base}/v1/me/usage`, { headers: { Authorization: `Bearer ${key}` } });
    return (await answer.json()).streams.open;
  };
  await until("the stream counts", async () => (await open()) === 1);
  await page.getByRole("button", { name: "Stop" }).click();
  await status.getByText("stopped").waitFor();
  await until("its place is free", async () => (await open()) === 0);
}

walk(async (browser) => {
  const reader = await person(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  await home(reader);
  await open(reader, "/docs", "docs");
  const sections = await hrefs(reader, ".docs-bar li a");
  assert.equal(sections.length, 3);
  for (const section of sections) {
    await reader.page.goto(section);
    for (const path of await hrefs(reader, ".pages a")) {
      const [, operation] = path.match(/^\/docs\/reference\/(\w+)$/) ?? [];
      if (!operation || OPERATIONS.includes(operation)) await open(reader, path, path.slice(1).replaceAll("/", " "));
    }
  }
  // A page of a proto file is in no menu.
  await open(reader, "/docs/grpc/account_service", "docs grpc account_service");
  await languages(reader);
  await searched(reader);
  await read(reader);
  await printed(reader);
  await filled(reader);
  await tried(reader);
  const nowhere = await reader.page.goto("/docs/nowhere");
  assert.equal(nowhere.status(), 404);
  await look(reader, "docs nowhere");
  // Without JavaScript every language can be chosen, too.
  const plain = await person(browser, { javaScriptEnabled: false });
  await plain.page.goto("/docs/quick-start");
  await plain.page.locator(".code").first().getByText("Go", { exact: true }).click();
  assert.equal(await plain.page.locator(".code").first().locator("pre:visible code").getAttribute("class"), "go");
  assert.ok(seen.length >= 15, seen.join());
  assert.deepEqual(reader.faults, []);
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

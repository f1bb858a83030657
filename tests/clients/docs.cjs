// A reader in Chromium: every page of the documentation, the choice of a language, and a request that is tried in the reference.
const assert = require("node:assert/strict");
const { base, look, open, person, seen, walk } = require("./browser.cjs");

const [, key] = process.argv.slice(2);

// The language that is chosen once is shown everywhere, here and on the next page.
async function languages({ page }) {
  await page.goto("/docs/quick-start");
  const shown = () => page.locator(".code pre:visible code").evaluateAll((codes) => codes.map(({ className }) => className));
  assert.ok((await shown()).every((language) => language === "sh"));
  await page.locator(".code").first().getByText("Python", { exact: true }).click();
  assert.ok((await shown()).every((language) => language === "python"));
  await page.goto("/docs/webhooks");
  assert.ok((await shown()).filter((language) => language === "python").length > 0);
  const [block] = await page.locator(".block:visible").all();
  await block.hover();
  await block.getByRole("button", { name: "Copy" }).click();
  const copied = await page.evaluate("navigator.clipboard.readText()");
  assert.equal(copied, await block.locator("pre").textContent());
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

// A request is sent from the page with the reader's key.
async function tried({ page }) {
  await page.goto("/docs/reference");
  await page.locator(".opblock").first().waitFor();
  await page.locator(".auth-wrapper button.authorize").first().click();
  await page.locator(".auth-container input").first().fill(key);
  await page.locator(".modal-ux button.authorize").first().click();
  await page.locator(".modal-ux button.btn-done").first().click();
  const operation = page.locator("#operations-Service-getMe, [id$=-getMe]").first();
  await operation.locator(".opblock-summary").click();
  await operation.locator("button.execute").click();
  await operation.locator(".live-responses-table").getByText("200", { exact: true }).first().waitFor();
}

walk(async (browser) => {
  const reader = await person(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  await home(reader);
  await open(reader, "/docs", "docs");
  const links = await reader.page.locator(".pages a").evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  for (const path of links) await open(reader, path, path.slice(1).replaceAll("/", " "));
  await languages(reader);
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

// The frame of the console's pages in Chromium, in a browser whose zone is Asia/Tokyo: nine hours ahead of UTC all year.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");

// Times in the zone of the visitor, tables that sort and are saved, and the palette.
async function frame({ page, faults }, project) {
  await page.goto(project);
  const time = page.locator("#keys ~ .table time").first();
  const [shown, title, at] = await time.evaluate(({ textContent, title, dateTime }) => [textContent, title, dateTime]);
  assert.match(title, /^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/);
  // The zone of the browser is nine hours ahead.
  const hour = String((new Date(at).getUTCHours() + 9) % 24).padStart(2, "0");
  assert.ok(shown.includes(` ${hour}:`), `${at} is shown as ${shown}`);
  // So is a time in the sentence of a tile.
  const tile = page.locator(".tiles time").first();
  assert.match(await tile.getAttribute("title"), /^\d{4}-\d\d-\d\d 00:00 UTC$/);
  assert.match(await tile.textContent(), / 09:00$/);
  await page.goto(`${project}/usage`);
  const head = page.getByRole("columnheader", { name: "Day" });
  const days = () => page.locator("[data-table=usage-by-day] tbody th").allTextContents();
  const oldest = await days();
  await head.getByRole("button").click();
  await head.getByRole("button").click();
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  assert.deepEqual(await days(), oldest.toReversed());
  // A spreadsheet may split a text at its semicolons. A choice that is not saved is in no file.
  await page.locator("[data-table=usage-by-day] tbody th").first().evaluate((cell) => {
    const select = document.createElement("select");
    select.append(new Option("a;=1+1", "saved", true), new Option("b", "chosen", false, true));
    cell.replaceChildren(select);
  });
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as CSV" }).first().click();
  const file = readFileSync(await (await saved).path(), "utf8").split("\r\n");
  assert.equal(file[0], "Day,Requests,Errors");
  assert.ok(file[1].startsWith("a;'=1+1,"), file[1]);
  assert.equal(file.length, oldest.length + 2);
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog", { name: "Go to" });
  await palette.getByRole("link", { name: /Usage/ }).waitFor();
  await palette.getByRole("textbox").fill("create webhook");
  await palette.locator("a.chosen", { hasText: "Create a webhook" }).waitFor();
  await Promise.all([page.waitForURL("**/test/webhooks/new"), page.keyboard.press("Enter")]);
  await page.keyboard.press("Control+k");
  await palette.getByRole("textbox").fill("evt_1");
  await palette.getByRole("link", { name: /evt_1/ }).waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await palette.isVisible(), false);
  assert.deepEqual(faults, []);
}

module.exports = { frame };

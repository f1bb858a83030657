// The form of an alert in Chromium: its chart follows what is typed, before anything is created.
const assert = require("node:assert/strict");
const { look, open } = require("./browser.cjs");

async function alerts(someone, project) {
  const { page } = someone;
  await open(someone, `${project}/test/alerts`, "no alerts");
  await open(someone, `${project}/test/alerts/new`, "new alert");
  const lines = page.locator("#preview line");
  assert.equal(await lines.count(), 0);
  await page.getByLabel("Token", { exact: true }).fill("$WALK");
  await page.getByLabel("Threshold", { exact: true }).fill("5");
  // The value is complete when the field is left.
  await page.getByLabel("Threshold", { exact: true }).blur();
  await lines.nth(1).waitFor({ state: "attached" });
  assert.equal(await page.getByLabel("Threshold", { exact: true }).inputValue(), "5");
  await look(someone, "new alert with its chart");
  // Nothing is drawn for a token that nobody knows.
  await page.getByLabel("Token", { exact: true }).fill("NOSUCHTOKEN");
  await page.getByLabel("Token", { exact: true }).blur();
  await lines.first().waitFor({ state: "detached" });
}

module.exports = { alerts };

// People in Chromium, by playwright-core: from the set-up link to an administrator, and from sign-up to a copied key. Each
// page on the way, in light and dark and at two widths, is given to axe-core, which must find nothing. With SCREENSHOTS,
// a folder, each is also kept as a picture to look at.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const from = createRequire(`${process.env.NODE_MODULES}/`);
const { chromium } = from("playwright-core");
const axe = readFileSync(from.resolve("axe-core/axe.min.js"), "utf8");

const [base, setUp] = process.argv.slice(2);
const PASSWORD = "correct horse battery staple";
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const WIDTHS = [360, 1280];
const seen = [];

// A person's browser; what no page may do is a fault.
async function person(browser, options) {
  const context = await browser.newContext({ baseURL: base, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(`${error}`));
  page.on("console", (message) => message.text().includes("Content Security Policy") && faults.push(message.text()));
  page.on("request", (request) => request.url().startsWith(base) || faults.push(`it asks ${request.url()}`));
  return { context, page, faults };
}

// Looks at a page as it is, in both themes and widths.
async function look({ page, faults }, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      const what = `${name} (${page.url()}), ${colorScheme}, ${width} px`;
      const wide = await page.evaluate("document.documentElement.scrollWidth");
      assert.ok(wide <= width, `${what}: it is ${wide} px wide`);
      await page.evaluate(axe);
      const found = await page.evaluate((rules) => window.axe.run({ runOnly: rules }), RULES);
      const told = found.violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html)}`);
      assert.deepEqual(told, [], what);
      assert.ok(found.passes.length > 0, what);
      if (process.env.SCREENSHOTS) {
        const path = `${process.env.SCREENSHOTS}/${name.replaceAll(" ", "-")}-${colorScheme}-${width}.png`;
        await page.screenshot({ path, fullPage: true });
      }
    }
  }
  assert.deepEqual(faults, [], name);
  seen.push(name);
}

async function open(someone, path, name) {
  const answer = await someone.page.goto(path);
  assert.equal(answer.status(), 200, path);
  await look(someone, name);
}

// Presses a button, and waits for the page that it leads to.
async function press({ page }, name) {
  const button = page.getByRole("button", { name });
  await Promise.all([page.waitForEvent("load"), button.first().click()]);
}

const id = (text, prefix) => text.match(new RegExp(`${prefix}_[0-9A-Za-z]+`))[0];

async function administrator(browser) {
  const someone = await person(browser);
  const { page } = someone;
  await open(someone, setUp, "set-up link");
  await page.getByLabel("E-mail").fill("root@people.example");
  await page.getByLabel("Password").fill(PASSWORD);
  await press(someone, "Become administrator");
  return someone;
}

async function customer(browser) {
  const someone = await person(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = someone;
  await open(someone, "/console/sign-in", "sign-in");
  await open(someone, "/console/forgot", "forgotten password");
  await open(someone, "/console/sign-up", "sign-up");
  // A keyboard is enough: the first link leads past the navigation.
  await page.keyboard.press("Tab");
  assert.match(await page.evaluate("document.activeElement.textContent"), /skip/i);
  await page.getByLabel("E-mail").fill("customer@people.example");
  await page.getByLabel("Organization name").fill("Acme");
  await page.getByLabel("Password").fill("short");
  await press(someone, "Sign up");
  assert.equal(await page.getByLabel("E-mail").inputValue(), "customer@people.example");
  assert.equal(await page.getByLabel("Password").inputValue(), "");
  await look(someone, "wrong sign-up");
  await page.getByLabel("Password").fill(PASSWORD);
  await press(someone, "Sign up");
  await look(someone, "organization");
  const organization = `/console/organizations/${id(page.url(), "org")}`;
  await open(someone, `${organization}/members`, "members");
  await open(someone, `${organization}/audit`, "audit log");
  await open(someone, "/console/organizations/new", "new organization");
  await open(someone, "/console/account", "account");
  await open(someone, `${organization}/projects`, "new project");
  await page.getByLabel("Name").fill("Hive");
  await press(someone, "Create project");
  const project = `/console/projects/${id(await page.content(), "prj")}`;
  await open(someone, project, "project");
  await open(someone, `${project}/keys`, "new key");
  await page.getByLabel("Name", { exact: true }).fill("laptop");
  await press(someone, "Create key");
  await look(someone, "key");
  const key = await page.getByLabel("Key", { exact: true }).inputValue();
  assert.match(key, /^svc_test_/);
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate("navigator.clipboard.readText()"), key);
  const me = await fetch(`${base}/v1/me`, { headers: { Authorization: `Bearer ${key}` } });
  assert.equal(me.status, 200);
  await open(someone, project, "project with a key");
  await open(someone, `${project}/usage`, "usage");
  await open(someone, `${project}/usage?days=30`, "usage of a month");
  await page.goto(project);
  await press(someone, "Ask for live access");
  await page.goto(`${organization}/members`);
  await page.getByLabel("E-mail").fill("guest@people.example");
  await page.locator("#role").selectOption("viewer");
  await press(someone, /invite/i);
  await look(someone, "invited");
  const link = (await page.content()).match(/\/console\/links\/[\w.-]+/)[0];
  return { someone, organization, project, link };
}

// What administrators see once a customer waits for them.
async function administration(someone) {
  const { page } = someone;
  for (const name of ["", "/organizations", "/users", "/audit", "/abuse", "/ingest"]) {
    await open(someone, `/console/administration${name}`, `administration ${name.slice(1)}`.trim());
  }
  await page.goto("/console/administration");
  await press(someone, /^Approve/);
  await look(someone, "approved");
  await page.goto("/console/administration/users");
  await press(someone, /^Reset link/);
  await look(someone, "reset link");
}

async function main() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    const root = await administrator(browser);
    const { project, link } = await customer(browser);
    await administration(root);
    const guest = await person(browser);
    await open(guest, link, "invitation");
    const nowhere = await guest.page.goto("/console/nowhere");
    assert.ok([200, 404].includes(nowhere.status()));
    await look(guest, "not found");
    // Without JavaScript all is there but the copy buttons.
    const plain = await person(browser, { javaScriptEnabled: false });
    await plain.page.goto(link);
    await plain.page.getByLabel("Password").fill(PASSWORD);
    await press(plain, "Create account");
    const answer = await plain.page.goto(project);
    assert.equal(answer.status(), 200);
    assert.equal(await plain.page.getByRole("button", { name: "Copy" }).count(), 0);
    assert.equal(await plain.page.getByRole("link", { name: "Create key" }).count(), 0, "a viewer");
    assert.ok(seen.length >= 24, seen.join());
  } finally {
    await browser.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

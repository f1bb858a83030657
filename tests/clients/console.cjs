// People in Chromium, by playwright-core: from the set-up link to an administrator; from sign-up to a copied key, the first
// webhook with its deliveries, events as they happen, and live access; a forgotten password. Each page on the way must be light,
// must not move while it arrives, and must fit phones, tablets and desktops in light and dark; axe-core must find nothing.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const { base, id, look, open, person, press, seen, walk } = require("./browser.cjs");
const { alerts } = require("./alerts.cjs");
const { frame } = require("./frame.cjs");
const { hazards } = require("./hazards.cjs");

const [, setUp] = process.argv.slice(2);
const EMAIL = "customer@people.example";
const PASSWORD = "correct horse battery staple";
const NEW_PASSWORD = "another horse, another battery";

async function administrator(browser) {
  const someone = await person(browser);
  const { page } = someone;
  await open(someone, setUp, "set-up link");
  await page.getByLabel("E-mail").fill("root@people.example");
  await page.getByLabel("Password").fill(PASSWORD);
  await press(someone, "Become administrator");
  return someone;
}

// Confirms the customer's e-mail: this installation sends no mail.
async function confirm(someone) {
  const { page } = someone;
  await open(someone, "/console/administration/users", "an e-mail that is not confirmed");
  const customer = page.getByRole("row", { name: /customer@people\.example/ });
  await Promise.all([page.waitForEvent("load"), customer.getByRole("button", { name: /^Confirm/ }).click()]);
}

async function customer(browser, root) {
  const options = { permissions: ["clipboard-read", "clipboard-write"], timezoneId: "Asia/Tokyo" };
  const someone = await person(browser, options);
  const { page } = someone;
  await open(someone, "/console/sign-in", "sign-in");
  await open(someone, "/console/forgot", "forgotten password");
  await open(someone, "/console/sign-up", "sign-up");
  // A keyboard is enough: the first link leads past the navigation.
  await page.keyboard.press("Tab");
  assert.match(await page.evaluate("document.activeElement.textContent"), /skip/i);
  await page.getByLabel("E-mail").fill(EMAIL);
  await page.getByLabel("Organization name").fill("Acme");
  await page.getByLabel("Password").fill("short");
  await press(someone, "Sign up");
  assert.equal(await page.getByLabel("E-mail").inputValue(), EMAIL);
  assert.equal(await page.getByLabel("Password").inputValue(), "");
  await look(someone, "wrong sign-up");
  await page.getByLabel("Password").fill(PASSWORD);
  await press(someone, "Sign up");
  await look(someone, "organization of somebody who is not confirmed");
  await confirm(root);
  await page.reload();
  await look(someone, "organization");
  const organization = `/console/organizations/${id(page.url(), "org")}`;
  await open(someone, `${organization}/members`, "members");
  await open(someone, `${organization}/audit`, "audit log");
  await open(someone, "/console/organizations/new", "new organization");
  await open(someone, "/console/account", "account");
  await open(someone, "/console/account/factors", "second factors");
  await press(someone, "Add an app");
  await look(someone, "authenticator app");
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
  // The documentation shows it in this tab.
  assert.equal(await page.evaluate("sessionStorage.getItem('docs-key')"), key);
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate("navigator.clipboard.readText()"), key);
  const me = await fetch(`${base}/v1/me`, { headers: { Authorization: `Bearer ${key}` } });
  assert.equal(me.status, 200);
  await open(someone, project, "project with a key");
  await frame(someone, project);
  await hazards(someone, EMAIL, PASSWORD);
  await webhooks(someone, project, key);
  await alerts(someone, project);
  await events(someone, project, key);
  // The plan has few streams, so one after the other.
  await Promise.all([signedOut(someone.context.browser(), `${project}/test/${FOLLOWED}`), explore(someone, project)]);
  await open(someone, `${project}/usage`, "usage");
  await open(someone, `${project}/usage?days=30`, "usage of a month");
  await open(someone, `${project}/settings`, "settings of a project");
  await open(someone, `${organization}/settings`, "settings of an organization");
  await open(someone, `/console/find?q=&project=${id(project, "prj")}`, "go to");
  await page.goto(project);
  await press(someone, "Ask for live access");
  await page.goto(`${organization}/members`);
  await page.getByLabel("E-mail").fill("guest@people.example");
  await page.locator("#role").selectOption("viewer");
  await press(someone, /invite/i);
  await look(someone, "invited");
  // When it ends is told in the visitor's zone, too.
  assert.match(await page.locator("main time").first().getAttribute("title"), /UTC$/);
  const link = (await page.content()).match(/\/console\/links\/[\w.-]+/)[0];
  return { someone, organization, project, link };
}

const post = (path, key, body) =>
  fetch(`${base}${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

async function thesis(key, text) {
  const made = await post("/v1/test/theses", key, { handle: "@walker", token: "$WALK", text });
  assert.equal(made.status, 201);
  return made.json();
}

// An endpoint that keeps what it is sent.
async function endpoint() {
  const got = [];
  const server = createServer((request, answer) => {
    let body = "";
    request.on("data", (piece) => { body += piece; });
    request.on("end", () => {
      got.push({ headers: request.headers, body });
      answer.end();
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { got, url: `http://127.0.0.1:${server.address().port}/hook`, close: () => server.close() };
}

// Waits until something holds, for half a minute at most.
async function until(what, holds) {
  for (const deadline = Date.now() + 30_000; !(await holds()); await new Promise((next) => setTimeout(next, 100))) {
    assert.ok(Date.now() < deadline, what);
  }
}

async function webhooks(someone, project, key) {
  const { page } = someone;
  const { got, url, close } = await endpoint();
  await open(someone, `${project}/test/webhooks`, "no webhooks");
  await open(someone, `${project}/test/webhooks/new`, "new webhook");
  await page.getByLabel("URL").fill("http://127.0.0.1:1/");
  await press(someone, "Create webhook");
  assert.match(await page.locator("#url-fault").textContent(), /port/);
  await look(someone, "webhook with a refused URL");
  assert.equal(await page.getByLabel("URL").inputValue(), "http://127.0.0.1:1/");
  await page.getByLabel("URL").fill(url);
  await page.getByLabel("thesis.created").check();
  await page.getByLabel("Tokens").fill("$WALK");
  await press(someone, "Create webhook");
  await look(someone, "webhook's secret");
  assert.match(await page.getByLabel("Signing secret").inputValue(), /^whsec_/);
  const webhook = `${project}/test/webhooks/${id(await page.content(), "wh")}`;
  await thesis(key, "The first one that a webhook hears of.");
  await until("the webhook is delivered to", () => got.length === 1);
  const { headers, body } = got[0];
  const delivered = async () => {
    await page.goto(webhook);
    return (await page.getByRole("cell", { name: "delivered" }).count()) > 0;
  };
  await until("the log says so", delivered);
  await look(someone, "webhook");
  await page.getByRole("link", { name: /^Inspect/ }).first().click();
  await page.waitForURL(`**/deliveries/${headers["service-delivery-id"]}`);
  await look(someone, "delivery");
  const headings = await page.locator("#attempts ~ details h3").allTextContents();
  assert.deepEqual(headings, ["Request of attempt 1", "Response to attempt 1"]);
  assert.ok((await page.getByText(headers["service-event-id"]).count()) > 0);
  assert.equal(await page.locator("#payload ~ pre").textContent(), body);
  await press(someone, "Send again");
  await until("the replay is delivered", () => got.length === 2);
  assert.equal(got[1].headers["service-replay-of"], headers["service-delivery-id"]);
  assert.equal(got[1].body, body);
  await open(someone, `${webhook}/matches`, "webhook's matches");
  await page.goto(webhook);
  await press(someone, /^Replay/);
  await until("one click replays from the log", () => got.length === 3);
  await page.goto(webhook);
  await press(someone, "Send test event");
  await until("the test is delivered", () => got.length === 4);
  assert.equal(got[3].headers["service-test"], "true");
  await page.goto(webhook);
  await page.getByText("Rotate the secret…").click();
  await press(someone, "Rotate secret");
  await look(someone, "webhook's new secret");
  await page.goto(webhook);
  await page.getByLabel("Description").fill("Walked over");
  await press(someone, "Save webhook");
  await press(someone, "Disable");
  await look(someone, "disabled webhook");
  await open(someone, `${project}/test/webhooks`, "webhooks");
  // The key has made theses: they are in the request log, and a new one comes to the live view.
  const requests = `${project}/test/requests`;
  await until("the requests are in the log", async () => {
    await page.goto(requests);
    return (await page.locator("#requests tbody tr").count()) > 0;
  });
  await look(someone, "requests");
  const count = await page.locator("#requests tbody tr").count();
  await page.getByRole("button", { name: "Follow", exact: true }).click();
  await thesis(key, "One that the live view of requests shows.");
  await until("a new request is shown", async () => (await page.locator("#requests tbody tr").count()) > count);
  await page.locator("#requests tbody a").first().click();
  await page.waitForURL("**/requests/*/req_*");
  await look(someone, "request");
  close();
}

// The page of events that is followed live.
const FOLLOWED = "events?types=thesis.created&token=%24WALK";

// Opens the live view of a page of events.
async function follow({ page }) {
  await page.getByRole("button", { name: "Follow", exact: true }).click();
  await said(page, /^Following$/);
}

// Waits until the live view says so.
const said = (page, text) => page.locator("#live [role=status]").getByText(text).waitFor();

// Another session of the same person follows events; then it ends in another tab.
async function signedOut(browser, path) {
  const someone = await person(browser);
  const { context, page, faults } = someone;
  await page.goto("/console/sign-in");
  await page.getByLabel("E-mail").fill(EMAIL);
  await page.getByLabel("Password").fill(PASSWORD);
  await press(someone, "Sign in");
  await page.goto(path);
  await follow(someone);
  const tab = await context.newPage();
  await tab.goto("/console/account");
  const form = tab.locator("form[action='/console/sign-out']");
  await Promise.all([tab.waitForEvent("load"), form.evaluate((sent) => sent.requestSubmit())]);
  // The stream ends within 10 s; then the browser opens it again, for which it waits up to 5 s.
  await said(page, "Ended: sign in again");
  assert.deepEqual(faults, []);
  await context.close();
}

async function events(someone, project, key) {
  const { context, page } = someone;
  const path = `${project}/test/${FOLLOWED}`;
  await open(someone, `${project}/test/events`, "events");
  await open(someone, path, "events of a token");
  const cell = (text) => page.getByRole("cell", { name: text });
  const texts =
    ["Before it is live", "Seen <b>as</b> it happens", "While it is paused", "While it is broken", "While it is sorted"];
  await thesis(key, texts[0]);
  assert.equal(await cell(texts[0]).count(), 0);
  let stream;
  page.on("request", (request) => { if (request.url().includes("/v1/events/stream")) stream = request.url(); });
  await follow(someone);
  await cell(texts[0]).waitFor();
  await thesis(key, texts[1]);
  await cell(texts[1]).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await thesis(key, texts[2]);
  await page.getByRole("button", { name: "Resume (1)" }).waitFor();
  await look(someone, "live events, paused", "Paused");
  await page.getByRole("button", { name: "Resume (1)" }).click();
  await cell(texts[2]).waitFor();
  // A ticket's new connection takes the place of the page's, which cannot come back at once.
  await context.setOffline(true);
  const thief = new AbortController();
  assert.equal((await fetch(stream, { signal: thief.signal })).status, 200);
  await said(page, "Reconnecting");
  thief.abort();
  await thesis(key, texts[3]);
  await context.setOffline(false);
  await cell(texts[3]).waitFor();
  await said(page, /^Following$/);
  await page.getByRole("button", { name: "Stop" }).click();
  await said(page, "Stopped");
  // The code goes on behind the last event.
  await page.getByText("Resume in code").click();
  for (const [language, begins] of [["curl", "Last-Event-ID: "], ["Python SDK", 'cursor="'], ["Go SDK", 'FromCursor: "']]) {
    await page.locator("#resume").getByText(language, { exact: true }).click();
    const code = await page.locator("#resume pre:visible").textContent();
    assert.match(code.split(begins)[1], /^[\w-]{10,}["']/, code);
  }
  // The table, which the live view replaced, sorts and is saved like any other.
  const saved = page.waitForEvent("download");
  await page.locator("#history").getByRole("button", { name: "Save as CSV" }).click();
  const file = readFileSync(await (await saved).path(), "utf8");
  assert.ok(file.startsWith("Created,Type,Event,Source\r\n2"), file);
  assert.equal(await page.locator("#events thead").getByRole("button").count(), 4);
  // A new event comes on top of the page's own order.
  const created = page.getByRole("columnheader", { name: "Created" });
  await created.getByRole("button").click();
  assert.equal(await created.getAttribute("aria-sort"), "ascending");
  await follow(someone);
  await thesis(key, texts[4]);
  await cell(texts[4]).waitFor();
  assert.equal(await created.getAttribute("aria-sort"), null);
  await page.getByRole("button", { name: "Stop" }).click();
  await said(page, "Stopped");
  // Every event is there once, the newest first.
  const ids = await page.locator("#events tbody tr").evaluateAll((rows) => rows.map((row) => row.dataset.id));
  assert.ok(ids.every((event) => event?.startsWith("evt_")), ids.join());
  assert.equal(new Set(ids).size, ids.length, ids.join());
  const lines = async () => (await page.locator("#events tbody a").allTextContents()).slice(0, texts.length).reverse();
  const expected = texts.map((text) => `@walker on $WALK: ${text}`);
  assert.deepEqual(await lines(), expected);
  // A replay of a moment without events ends; one of the last hour shows them again.
  const [from, to] = ["Replay from", "to"].map((label) => page.getByLabel(label, { exact: true }));
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString().slice(0, 19);
  await from.fill(hourAgo);
  await to.fill(hourAgo);
  await page.getByRole("button", { name: "Follow", exact: true }).click();
  await said(page, "The replay is complete");
  assert.equal(await page.locator("#events tbody tr").count(), 0);
  await to.fill("");
  await page.getByRole("button", { name: "Follow", exact: true }).click();
  await cell(texts[4]).waitFor();
  await said(page, "Replaying");
  assert.deepEqual(await lines(), expected);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("link", { name: texts[1] }).click();
  await page.waitForURL("**/events/evt_*");
  await look(someone, "event", texts[1]);
}

async function explore(someone, project) {
  const { page } = someone;
  const path = `${project}/test/explore`;
  await open(someone, path, "explore");
  await page.getByLabel("Search for").fill("first");
  await press(someone, "Search");
  await look(someone, "search");
  await open(someone, `${path}/theses?token=%24WALK`, "theses");
  await page.getByRole("row", { name: /first one/ }).getByRole("link").first().click();
  await page.waitForURL("**/theses/th_*");
  await look(someone, "thesis");
  await open(someone, `${path}/profiles/%40walker`, "profile");
  await open(someone, `${path}/tokens/%24WALK`, "token");
  const hour = await page.locator("svg.chart g > title").last().textContent();
  assert.match(hour, /^From \w+ \d+, \d{4}, \d\d:\d\d \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\): /);
  await open(someone, `${path}/verify`, "verify");
  await page.getByLabel("Handle").fill("@walker");
  await page.getByLabel("Token").fill("$WALK");
  // History reaches back for some days only.
  const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 16);
  await page.getByLabel("Posted from").fill(yesterday);
  await press(someone, "Verify");
  await page.getByRole("heading", { name: "Verdict" }).waitFor();
  await look(someone, "verdict", "Verified");
}

// The status of a call with a key.
const me = async (key) => (await fetch(`${base}/v1/me`, { headers: { Authorization: `Bearer ${key}` } })).status;

// Live access that an administrator gave and withdraws, and a key that is revoked under an open stream.
async function live(root, { someone, project }) {
  const { page } = someone;
  await page.goto(`${project}/keys`);
  await page.getByLabel("Name", { exact: true }).fill("production");
  await page.getByLabel("Live: real data").check();
  await press(someone, "Create key");
  const key = await page.getByLabel("Key", { exact: true }).inputValue();
  assert.equal(await me(key), 200);
  await open(someone, `${project}/live/events`, "live environment");
  const stream = await fetch(`${base}/v1/events/stream`, { headers: { Authorization: `Bearer ${key}` } });
  assert.equal(stream.status, 200);
  const ended = stream.text().catch(() => "");
  await page.goto(project);
  await page.getByRole("row", { name: /production/ }).getByRole("link", { name: /^Revoke/ }).click();
  await look(someone, "question about a live key", "refused from now on");
  await page.getByLabel("Type the name to confirm").fill("production");
  await press(someone, "Revoke key");
  await Promise.race([ended, new Promise((_, fail) => setTimeout(fail, 5_000, new Error("its stream goes on")))]);
  assert.equal(await me(key), 401);
  await page.goto(`${project}/keys`);
  await page.getByLabel("Name", { exact: true }).fill("again");
  await page.getByLabel("Live: real data").check();
  await press(someone, "Create key");
  const other = await page.getByLabel("Key", { exact: true }).inputValue();
  assert.equal(await me(other), 200);
  await root.page.goto("/console/administration");
  await root.page.getByRole("link", { name: "Withdraw live access of Hive" }).click();
  await press(root, "Withdraw live access");
  await until("live access is withdrawn", async () => (await me(other)) === 403);
  const refused = await page.goto(`${project}/live/webhooks`);
  assert.equal(refused.status(), 403);
  await look(someone, "live environment withdrawn");
}

// A password that was forgotten is replaced by the link that an administrator hands over.
async function forgotten(browser, link) {
  const someone = await person(browser);
  const { page } = someone;
  await open(someone, link, "link to a new password");
  await page.getByLabel(/password/i).first().fill(NEW_PASSWORD);
  await press(someone, /password/i);
  await page.goto("/console/sign-in");
  await page.getByLabel("E-mail").fill(EMAIL);
  await page.getByLabel("Password").fill(PASSWORD);
  await press(someone, "Sign in");
  assert.ok(page.url().includes("/console/sign-in"), "the old password");
  await page.getByLabel("Password").fill(NEW_PASSWORD);
  await press(someone, "Sign in");
  assert.ok(!page.url().includes("/console/sign-in"), page.url());
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
  const customer = page.getByRole("row", { name: /customer@people\.example/ });
  await Promise.all([page.waitForEvent("load"), customer.getByRole("button", { name: /^Make administrator/ }).click()]);
  await customer.getByRole("link", { name: /^Remove as administrator/ }).click();
  await look(someone, "question about an administrator", "no longer sees");
  await press(someone, "Remove as administrator");
  await page.getByText("no administrator any more").waitFor();
  await Promise.all([page.waitForEvent("load"), customer.getByRole("button", { name: /^Reset link/ }).click()]);
  await look(someone, "reset link");
  return new URL(await page.getByLabel("Link").inputValue()).pathname;
}

async function all(browser) {
  const root = await administrator(browser);
  const walked = await customer(browser, root);
  const { project, link } = walked;
  const reset = await administration(root);
  await live(root, walked);
  await forgotten(browser, reset);
  const guest = await person(browser);
  await open(guest, link, "invitation");
  assert.match(await guest.page.locator("main time").getAttribute("title"), /UTC$/);
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
  for (const path of ["webhooks", "events", "explore", "explore/theses", "explore/tokens/%24WALK"]) {
    assert.equal((await plain.page.goto(`${project}/test/${path}`)).status(), 200, path);
    assert.ok((await plain.page.getByRole("link", { name: /walk|127/i }).count()) > 0, path);
  }
  await plain.page.goto(`${project}/test/events`);
  assert.equal(await plain.page.getByRole("button", { name: "Follow" }).count(), 0, "live events need a script");
  assert.ok(seen.length >= 50, seen.join());
}

walk(all).catch((error) => {
  console.error(error);
  process.exit(1);
});

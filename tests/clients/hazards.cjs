// What may go wrong for people in Chromium: names and texts of strangers, two tabs, a reload, the way back, a slow link, and a
// session that ends while somebody types.
const assert = require("node:assert/strict");
const { arrive, base, id, look, open, person, press } = require("./browser.cjs");

// Markup, letters without a space, and emoji with text from right to left.
const NAMES = ["<img src=x onerror=alert(1)> \"'{{ 7 * 7 }} &lt;b&gt;", "W".repeat(200), "🚀👩‍👩‍👧 مرحبا بالعالم שלום"];
const SLOW = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 };

const address = (page) => new URL(page.url()).pathname;

// Fills in the form of a new project.
async function name({ page }, organization, text) {
  await page.goto(`${organization}/projects`);
  await page.getByLabel("Name", { exact: true }).fill(text);
}

async function post(key, text) {
  const answer = await fetch(`${base}/v1/test/theses`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ handle: "@stranger", token: "$STRANGE", text }),
  });
  assert.equal(answer.status, 201);
}

// What strangers type is text, and no column leaves its table for it.
async function strangers(someone) {
  const { page } = someone;
  await page.goto("/console/organizations/new");
  await page.getByLabel("Name", { exact: true }).fill(NAMES[1]);
  await press(someone, "Create organization");
  const organization = address(page);
  let project;
  for (const text of NAMES) {
    await name(someone, organization, text);
    await press(someone, "Create project");
    project = `/console/projects/${id(await page.content(), "prj")}`;
  }
  await page.goto(`${project}/keys`);
  await page.getByLabel("Name", { exact: true }).fill(NAMES[1]);
  await press(someone, "Create key");
  const key = await page.getByLabel("Key", { exact: true }).inputValue();
  // A reload shows the same key, and makes no other.
  await page.reload();
  assert.equal(await page.getByLabel("Key", { exact: true }).inputValue(), key);
  for (const text of NAMES) await post(key, text.repeat(3));
  const pages = ["/test/explore/theses", "/test/events", "/usage"].map((path) => project + path);
  for (const path of [organization, `${organization}/members`, project, ...pages]) {
    await open(someone, path, `names of strangers ${path.replaceAll("/", " ")}`);
    assert.equal(await page.locator("img").count(), 0, path);
    const spare = await page.locator("main .table").evaluateAll((all) => all.map((box) => box.clientWidth - box.scrollWidth));
    // The table of keys is wider than some screens by itself.
    assert.ok(path === project || spare.every((pixels) => pixels >= -1), `${path}: ${spare}`);
    const facts = await page.locator("main dd").evaluateAll((all) => all.map((fact) => fact.clientWidth));
    assert.ok(facts.every((width) => width >= 100), `${path}: ${facts}`);
  }
  for (const path of [organization, `${project}/test/explore/theses`]) {
    await page.goto(path);
    for (const text of NAMES) await page.locator("main").getByText(text.slice(0, 100)).first().waitFor();
  }
  return { organization, project };
}

// Of two tabs the later one is told, and neither a reload nor the way back sends its form again.
async function tabs(someone, organization) {
  const { context, page } = someone;
  const settings = `${organization}/settings`;
  const tab = { page: await context.newPage() };
  await Promise.all([page.goto(settings), tab.page.goto(settings)]);
  await page.getByLabel("Name", { exact: true }).fill("First");
  await press(someone, "Save name");
  await tab.page.getByLabel("Name", { exact: true }).fill("Late");
  await press(tab, "Save name");
  await tab.page.getByRole("alert").getByText(/again/).waitFor();
  assert.equal(await tab.page.getByLabel("Name", { exact: true }).inputValue(), "Late");
  await tab.page.reload();
  assert.deepEqual([address(tab.page), await tab.page.getByLabel("Name", { exact: true }).inputValue()], [settings, "First"]);
  await name(tab, organization, "n".repeat(201));
  await press(tab, "Create project");
  await tab.page.getByRole("alert").waitFor();
  await tab.page.getByLabel("Name", { exact: true }).fill("Corrected");
  await press(tab, "Create project");
  await tab.page.goBack();
  assert.equal(address(tab.page), `${organization}/projects`);
  await tab.page.getByRole("button", { name: "Create project" }).waitFor();
  await tab.page.close();
}

// Without JavaScript, too, the way back from the page after a corrected form sends nothing.
async function corrected(browser) {
  const someone = await person(browser, { javaScriptEnabled: false });
  const { context, page } = someone;
  await page.goto("/console/sign-up");
  await page.getByLabel("E-mail").fill("corrected@people.example");
  await page.getByLabel("Organization name").fill("Corrected");
  await page.getByLabel("Password").fill("short");
  await press(someone, "Sign up");
  assert.equal(address(page), "/console/sign-up");
  await page.getByRole("alert").waitFor();
  assert.equal(await page.getByLabel("E-mail").inputValue(), "corrected@people.example");
  await page.getByLabel("Password").fill("a horse that was corrected");
  await press(someone, "Sign up");
  assert.match(address(page), /\/organizations\/org_/);
  const sent = [];
  page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
  await page.goBack();
  await page.getByRole("main").waitFor();
  assert.deepEqual(sent, []);
  assert.ok(!page.url().startsWith("chrome-error:"), page.url());
  await context.close();
}

// Over a slow link nothing moves when the scripts of a page arrive. A button is pressed again before the next page comes, and
// one form is sent.
async function slowness(someone, { organization, project }) {
  const { context, page } = someone;
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.emulateNetworkConditions", SLOW);
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  await arrive(page, session, `${project}/test/events`);
  await session.send("Network.setCacheDisabled", { cacheDisabled: false });
  await name(someone, organization, "Twice");
  const sent = [];
  page.on("request", (request) => request.method() === "POST" && sent.push(request.url()));
  const button = page.getByRole("button", { name: "Create project" });
  await Promise.all([page.waitForEvent("load"), button.click({ clickCount: 3 })]);
  assert.equal(sent.length, 1, sent.join());
  await session.detach();
  await page.goto(organization);
  for (const text of ["Corrected", "Twice"]) {
    assert.equal(await page.locator("main").getByRole("link", { name: text, exact: true }).count(), 1, text);
  }
}

// A session that ends while its owner types: after the sign-in the form is there, and is sent.
async function interruption(someone, organization, email, password) {
  const { context, page } = someone;
  const signIn = async (visitor) => {
    await visitor.page.getByLabel("E-mail").fill(email);
    await visitor.page.getByLabel("Password").fill(password);
    await press(visitor, "Sign in");
  };
  const other = await person(context.browser());
  await other.page.goto("/console/sign-in");
  await signIn(other);
  await name(someone, organization, "Kept <b>");
  await other.page.goto("/console/account");
  const sessions = other.page.locator("#sessions-heading ~ .table tbody tr").filter({ hasNotText: "This one" });
  assert.ok((await sessions.count()) > 0);
  while ((await sessions.count()) > 0) {
    const revoke = sessions.first().getByRole("button", { name: /^Revoke/ });
    await Promise.all([other.page.waitForEvent("load"), revoke.click()]);
  }
  await other.context.close();
  await press(someone, "Create project");
  assert.equal(address(page), "/console/sign-in");
  await signIn(someone);
  await look(someone, "form kept over a sign-in", "Kept <b>");
  await press(someone, "Send");
  await page.goto(organization);
  assert.equal(await page.getByRole("link", { name: "Kept <b>", exact: true }).count(), 1);
}

async function hazards(someone, email, password) {
  const made = await strangers(someone);
  await tabs(someone, made.organization);
  await corrected(someone.context.browser());
  await slowness(someone, made);
  await interruption(someone, made.organization, email, password);
}

module.exports = { hazards };

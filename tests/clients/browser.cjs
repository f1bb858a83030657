// A person's browser in Chromium, by playwright-core, and axe-core, which must find nothing on a page in light and dark, on
// a phone, a tablet and a desktop. The page must fit other widths too. One load of a page serves all of this.
// With SCREENSHOTS, a folder, each is also kept as a picture to look at.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const from = createRequire(`${process.env.NODE_MODULES}/`);
const { chromium } = from("playwright-core");
const axe = readFileSync(from.resolve("axe-core/axe.min.js"), "utf8");

const [base] = process.argv.slice(2);
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
// The rules that depend on a theme.
const COLOURS = { type: "rule", values: ["color-contrast", "link-in-text-block"] };
// Widths at which a page must fit in each theme, and the rules by which axe-core judges it there. Each layout of the style has
// one of the judged widths, but for that of the documentation at 1280 px, which has no parts beside those of its neighbours.
const WIDTHS = [360, 390, 768, 1280, 1440];
const JUDGED = {
  light: { 390: RULES, 768: RULES, 1440: RULES },
  dark: { 390: RULES, 768: COLOURS, 1440: COLOURS },
};
// Most bytes that a page and what it loads have on the wire, but for the description of all operations.
const MAX_BYTES = 150 * 1024;
const HEAVY = "/docs/reference";
const MAX_SHIFT = 0.05;
// The names of the pages that were looked at.
const seen = [];

// A person's browser; what no page may do is a fault.
async function person(browser, options) {
  const context = await browser.newContext({ baseURL: base, ...options });
  await context.addInitScript(observe);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(`${error}`));
  page.on("console", (message) => message.text().includes("Content Security Policy") && faults.push(message.text()));
  page.on("request", (request) => request.url().startsWith(base) || faults.push(`it asks ${request.url()}`));
  return { context, page, faults };
}

// Demands that a page is not wider than its window.
async function fits(page, width, what) {
  const wide = await page.evaluate("document.documentElement.scrollWidth");
  assert.ok(wide <= width, `${what}: it is ${wide} px wide`);
}

// Demands that a page is not wider than its window, and that axe-core finds nothing.
async function judge(page, width, what, rules = RULES) {
  await fits(page, width, what);
  // A page that was judged before has it.
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe);
  const { told, passes } = await page.evaluate(violations, rules);
  assert.deepEqual(told, [], what);
  assert.ok(passes > 0, what);
}

// Runs axe-core in the page. Only violations leave the page in full: the elements that pass are thousands.
async function violations(rules) {
  const found = await window.axe.run(document, { runOnly: rules, resultTypes: ["violations"], selectors: false });
  const told = found.violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html)}`);
  return { told, passes: found.passes.length };
}

// Looks at a page as it is, in both themes and at all widths. It must have `text`, if one is given.
async function look({ page, faults }, name, text) {
  if (text) await page.locator("main").getByText(text).first().waitFor();
  for (const colorScheme of Object.keys(JUDGED)) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      const what = `${name} (${page.url()}), ${colorScheme}, ${width} px`;
      const rules = JUDGED[colorScheme][width];
      if (!rules) {
        await fits(page, width, what);
        continue;
      }
      await judge(page, width, what, rules);
      if (process.env.SCREENSHOTS) {
        const path = `${process.env.SCREENSHOTS}/${name.replaceAll(" ", "-")}-${colorScheme}-${width}.png`;
        await page.screenshot({ path, fullPage: true });
      }
    }
  }
  assert.deepEqual(faults, [], name);
  seen.push(name);
}

// What a page and the files that it loads have on the wire, also those that the browser had, and how far it has shifted.
function measured() {
  window.addShifts(window.shifts.takeRecords());
  const files = ["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type));
  return { bytes: files.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0), shift: window.shift };
}

function observe() {
  window.shift = 0;
  window.addShifts = (entries) => {
    for (const { value, hadRecentInput } of entries) if (!hadRecentInput) window.shift += value;
  };
  window.shifts = new PerformanceObserver((list) => window.addShifts(list.getEntries()));
  window.shifts.observe({ type: "layout-shift", buffered: true });
}

// Goes to a page, which must be light and must not move while it arrives. On a busy machine a page is now and then painted
// before all of it is there, so one visit of three must be steady. The later ones load everything again: with a full cache
// nothing would move.
async function arrive(page, session, path) {
  const shifts = [];
  while (!shifts.some((shift) => shift < MAX_SHIFT)) {
    assert.ok(shifts.length < 3, `${path} shifts by ${shifts.join(", ")}`);
    if (shifts.length > 0) await session.send("Network.setCacheDisabled", { cacheDisabled: true });
    const answer = await page.goto(path);
    assert.equal(answer.status(), 200, path);
    const { bytes, shift } = await page.evaluate(measured);
    assert.ok(bytes > 0 && (bytes <= MAX_BYTES || path === HEAVY), `${path} takes ${bytes} bytes`);
    shifts.push(shift);
  }
}

// Opens a page, and looks at it.
async function open(someone, path, name) {
  const session = await someone.context.newCDPSession(someone.page);
  await session.send("Network.enable");
  await arrive(someone.page, session, path);
  await session.detach();
  await look(someone, name);
}

// Presses a button, and waits for the page that it leads to.
async function press({ page }, name) {
  const button = page.getByRole("button", { name });
  await Promise.all([page.waitForEvent("load"), button.first().click()]);
}

// The first id of a kind in a text.
const id = (text, prefix) => text.match(new RegExp(`${prefix}_[0-9A-Za-z]+`))[0];

// Starts Chromium, and ends it after the walk.
async function walk(steps) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    await steps(browser);
  } finally {
    await browser.close();
  }
}

module.exports = { arrive, base, id, judge, look, open, person, press, seen, walk };

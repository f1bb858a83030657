// A person's browser in Chromium, by playwright-core, and axe-core, which must find nothing on a page in light and dark and at
// two widths. With SCREENSHOTS, a folder, each is also kept as a picture to look at.
const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const from = createRequire(`${process.env.NODE_MODULES}/`);
const { chromium } = from("playwright-core");
const axe = readFileSync(from.resolve("axe-core/axe.min.js"), "utf8");

const [base] = process.argv.slice(2);
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const VIEWS = ["light", "dark"].flatMap((theme) => [360, 1280].map((width) => [theme, width]));
// The names of the pages that were looked at.
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

// Demands that a page is not wider than its window, and that axe-core finds nothing.
async function judge(page, width, what) {
  const wide = await page.evaluate("document.documentElement.scrollWidth");
  assert.ok(wide <= width, `${what}: it is ${wide} px wide`);
  await page.evaluate(axe);
  const found = await page.evaluate((rules) => window.axe.run(document, { runOnly: rules }), RULES);
  const told = found.violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html)}`);
  assert.deepEqual(told, [], what);
  assert.ok(found.passes.length > 0, what);
}

// Looks at a page as it is, in both themes and widths. It must have `text`, if one is given.
async function look({ page, faults }, name, text) {
  if (text) await page.locator("main").getByText(text).first().waitFor();
  for (const [colorScheme, width] of VIEWS) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height: 800 });
    await judge(page, width, `${name} (${page.url()}), ${colorScheme}, ${width} px`);
    if (process.env.SCREENSHOTS) {
      const path = `${process.env.SCREENSHOTS}/${name.replaceAll(" ", "-")}-${colorScheme}-${width}.png`;
      await page.screenshot({ path, fullPage: true });
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

// Starts Chromium, and ends it after the walk.
async function walk(steps) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    await steps(browser);
  } finally {
    await browser.close();
  }
}

module.exports = { base, judge, look, open, person, seen, walk };

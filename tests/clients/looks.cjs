// The look of a fixed set of pages in Chromium, in both themes and at three widths: no error of a script, nothing that scrolls
// sideways but tables and code, no finding of axe-core, no shift of what is drawn, little to load, and the Tab key alone is
// enough. Pictures of them are compared with those in `looks/`, so that a change of the look is seen and decided. With
// UPDATE_LOOKS=1 the pictures are made anew. With SCREENSHOTS, a folder, pictures that differ are kept there. A phone must show
// each of them and every page of the documentation soon.
const assert = require("node:assert/strict");
const { existsSync, mkdirSync, readFileSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");
const { base, judge, person, walk } = require("./browser.cjs");

const FOLDER = join(__dirname, "looks");
const SIZES = [[390, 844], [768, 1024], [1440, 900]];
const THEMES = ["light", "dark"];
// A name, a path, and selectors of what differs from run to run, which is left out of the pictures. They show what one sees
// first, and of the design the whole page.
const PAGES = [
  ["home", "/", ["#events"]],
  ["docs", "/docs"],
  ["guide", "/docs/quick-start"],
  ["errors", "/docs/errors"],
  ["reference", "/docs/reference"],
  ["status", "/status", [".status section", ".status > .hint"]],
  ["verify", "/verify"],
  ["design", "/design"],
  ["sign-in", "/console/sign-in"],
  ["sign-up", "/console/sign-up"],
];
// Pages of operations have one form, and so have those of proto files. These show most.
const HEAVIEST = ["/docs/reference/listDeliveries", "/docs/grpc/account_service"];
// Most bytes that a page and what it loads have on the wire. The reference describes every operation.
const MAX_BYTES = 150 * 1024;
const IS_HEAVY = new Set(["reference"]);
const MAX_SHIFT = 0.05;
// The largest paint must be done by then over 4G: 9 Mbit/s, and 85 ms to the service and back.
const MAX_PAINT_MS = 1_000;
const FOUR_G = { offline: false, latency: 85, downloadThroughput: 9e6 / 8, uploadThroughput: 9e6 / 8 };
// Pictures have half the size of the screen. A pixel differs if no pixel beside it has nearly its colour, and of ten thousand
// pixels one may differ: edges of letters are drawn a little differently from version to version.
const SCALE = 0.5;
const NEAR = 24;
const MAX_DIFFERENT = 0.0001;

// Measures shifts and the largest paint, and whether the theme is known before there is a body.
function measure() {
  window.measured = { shift: 0, paint: 0, theme: null };
  const observe = (type, each) =>
    new PerformanceObserver((list) => list.getEntries().forEach(each)).observe({ type, buffered: true });
  observe("layout-shift", ({ value, hadRecentInput }) => { if (!hadRecentInput) window.measured.shift += value; });
  observe("largest-contentful-paint", ({ startTime }) => { window.measured.paint = startTime; });
  new MutationObserver((_, observer) => {
    if (!document.body) return;
    window.measured.theme = document.documentElement.dataset.theme ?? null;
    observer.disconnect();
  }).observe(document, { childList: true, subtree: true });
}

// Elements that scroll sideways although they are neither tables nor code.
function sideways() {
  const scrolls = (element) => {
    const { overflowX } = getComputedStyle(element);
    return ["auto", "scroll"].includes(overflowX) && element.scrollWidth > element.clientWidth + 1;
  };
  const others = [...document.body.querySelectorAll("*")].filter((element) => !element.matches("pre, code, .table, textarea"));
  return others.filter(scrolls).map(({ outerHTML }) => outerHTML.slice(0, 120));
}

// Replaces what differs from run to run: the service's address, times, and parts of pages.
function settle(selectors) {
  for (const part of document.querySelectorAll(selectors.join() || "nothing")) part.hidden = true;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const time = /\d{4}-\d\d-\d\d(?:[T ][\d:.]+)?/g;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.data.replaceAll(location.host, "localhost:8080").replace(time, (found) => found.replace(/\d/g, "0"));
    if (text !== node.data) node.data = text;
  }
  document.activeElement?.blur();
}

// The share of pixels that differ between two pictures, or 1 if their sizes do.
async function difference([one, other, near]) {
  const pixels = async (data) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [a, b] = [await pixels(one), await pixels(other)];
  if (a.width !== b.width || a.height !== b.height) return 1;
  const isNear = (at, from) => [0, 1, 2].every((channel) => Math.abs(a.data[at + channel] - b.data[from + channel]) <= near);
  const isFound = (x, y) => {
    const at = 4 * (y * a.width + x);
    if (isNear(at, at)) return true;
    for (let row = Math.max(y - 1, 0); row <= Math.min(y + 1, a.height - 1); row++) {
      for (let column = Math.max(x - 1, 0); column <= Math.min(x + 1, a.width - 1); column++) {
        if (isNear(at, 4 * (row * a.width + column))) return true;
      }
    }
    return false;
  };
  let different = 0;
  for (let y = 0; y < a.height; y++) for (let x = 0; x < a.width; x++) different += isFound(x, y) ? 0 : 1;
  return different / (a.width * a.height);
}

// True once fonts and icons are there. A page that follows a stream never stops loading.
function isComplete() {
  const icons = performance.getEntriesByType("resource").some(({ name }) => name.includes("/icons.svg"));
  return document.fonts.status === "loaded" && (icons || !document.querySelector("use"));
}

async function complete(page) {
  await page.waitForFunction(isComplete);
  await page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
}

// A page that the browser loads for the first time, and the requests of it that are finished.
async function load(browser, path, options) {
  const someone = await person(browser, { reducedMotion: "reduce", ...options });
  const { page } = someone;
  await page.addInitScript(measure);
  const loaded = [];
  page.on("requestfinished", (request) => loaded.push(request));
  const answer = await page.goto(path);
  assert.equal(answer.status(), 200, path);
  await complete(page);
  return { ...someone, loaded };
}

// A page that is painted while it arrives shifts when the rest comes, on a busy machine now and then: one visit of three
// must be without.
async function loadSteadily(browser, path, options, what) {
  for (let visit = 1; ; visit += 1) {
    const someone = await load(browser, path, options);
    const { shift } = await someone.page.evaluate("measured");
    if (shift < MAX_SHIFT) return someone;
    assert.ok(visit < 3, `${what}: it shifts by ${shift}`);
    await someone.context.close();
  }
}

// Judges a page in one theme at one width; gives its picture.
async function judged(browser, [name, path, selectors = []], colorScheme, [width, height]) {
  const what = `${name}, ${colorScheme}, ${width} px`;
  const options = { colorScheme, viewport: { width, height }, deviceScaleFactor: SCALE };
  const { context, page, faults, loaded } = await loadSteadily(browser, path, options, what);
  const sizes = await Promise.all(loaded.map((request) => request.sizes()));
  const bytes = sizes.reduce((sum, { responseBodySize, responseHeadersSize }) => sum + responseBodySize + responseHeadersSize, 0);
  assert.ok(bytes <= MAX_BYTES || IS_HEAVY.has(name), `${what}: it takes ${bytes} bytes`);
  await judge(page, width, what);
  assert.deepEqual(await page.evaluate(sideways), [], what);
  assert.deepEqual(faults, [], what);
  await page.evaluate(settle, selectors);
  const picture = await page.screenshot({ animations: "disabled", caret: "hide", fullPage: name === "design" });
  await context.close();
  return picture;
}

// The time of the largest paint at the first visit of a page by a phone.
async function paintTime(browser, path) {
  const context = await browser.newContext({ baseURL: base, viewport: { width: 390, height: 844 } });
  const page = await context.newPage();
  await page.addInitScript(measure);
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.emulateNetworkConditions", FOUR_G);
  await page.goto(path);
  await complete(page);
  // Its time is known a little after the paint itself.
  await page.waitForFunction(() => window.measured.paint > 0);
  const { paint } = await page.evaluate("measured");
  await context.close();
  return paint;
}

// Demands that a phone shows a page soon. A visit is late too where the machine is busy, so one of three must be in time.
async function soon(browser, path) {
  const times = [];
  while (times.length < 3 && !times.some((paint) => paint < MAX_PAINT_MS)) times.push(await paintTime(browser, path));
  assert.ok(times.some((paint) => paint < MAX_PAINT_MS), `${path}: its largest paint is done after ${times.join(", ")} ms`);
}

// The paths of all pages that everybody may read. The index of the search names every page of the documentation.
async function paths() {
  const index = await (await fetch(`${base}/docs/search.json`)).json();
  const all = new Set([...PAGES.map(([, path]) => path), ...index.map(({ path }) => path.split("#")[0])]);
  for (const path of HEAVIEST) assert.ok(all.has(path), path);
  const isOneOfMany = (path) => /^\/docs\/(reference|grpc)\//.test(path) && !HEAVIEST.includes(path);
  return [...all].filter((path) => !isOneOfMany(path));
}

// Marks what the Tab key must reach, of a group of radio buttons the chosen one. Gives the number of elements.
function usable() {
  const all = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']");
  const isUsable = (element) => element.tabIndex >= 0 && !element.disabled && (element.type !== "radio" || element.checked);
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  window.usable = new Set([...all].filter((element) => isUsable(element) && isShown(element)));
  return window.usable.size;
}

// Takes the element that has the focus from those that are left. Null once the focus has left the page.
function focused() {
  const element = document.activeElement;
  if (element === document.body) return null;
  window.usable.delete(element);
  return { isSeen: getComputedStyle(element).outlineStyle !== "none", html: element.outerHTML.slice(0, 120) };
}

// The Tab key alone reaches everything that can be used and leaves the page again. What has the focus is seen.
async function keyboard(browser, [name, path]) {
  const { context, page } = await load(browser, path, { viewport: { width: 1440, height: 900 } });
  const count = await page.evaluate(usable);
  assert.ok(count > 5, `${name}: ${count} elements can be used`);
  for (let presses = 0, focus = {}; focus; presses += 1) {
    assert.ok(presses < 400, `${name}: the focus does not leave the page`);
    await page.keyboard.press("Tab");
    focus = await page.evaluate(focused);
    assert.ok(focus?.isSeen ?? true, `${name}: one does not see the focus on ${focus?.html}`);
  }
  const left = await page.evaluate(() => [...window.usable].map(({ outerHTML }) => outerHTML.slice(0, 120)));
  assert.deepEqual(left, [], `${name}: the Tab key does not reach them`);
  await context.close();
}

// The theme that is chosen once is there on every page before anything is drawn, until the system's is chosen again.
async function themes(browser) {
  const { context, page, faults } = await load(browser, "/design", { colorScheme: "light" });
  const button = page.getByRole("button", { name: "Dark theme" });
  const colour = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
  const light = await colour();
  assert.equal(await button.getAttribute("aria-pressed"), "false");
  await button.click();
  const dark = await colour();
  assert.notEqual(dark, light);
  for (const path of ["/design", "/console/sign-in", "/verify"]) {
    await page.goto(path);
    assert.equal((await page.evaluate("measured")).theme, "dark", path);
    assert.deepEqual([await colour(), await button.getAttribute("aria-pressed")], [dark, "true"], path);
  }
  // A tab that is open follows.
  const tab = await context.newPage();
  await tab.goto("/design");
  await tab.getByRole("button", { name: "Dark theme" }).press("Enter");
  // A text would be evaluated again and again, which the pages' policy forbids; a function is not.
  await page.waitForFunction(() => document.documentElement.dataset.theme === undefined);
  assert.equal(await colour(), light);
  await tab.close();
  await page.emulateMedia({ colorScheme: "dark" });
  await page.locator("button.theme[aria-pressed=true]").waitFor();
  assert.equal(await colour(), dark);
  assert.deepEqual(faults, []);
  await context.close();
  // Without its script there is no switch, and the system decides.
  const plain = await person(browser, { javaScriptEnabled: false, colorScheme: "dark" });
  await plain.page.goto("/design");
  assert.equal(await plain.page.getByRole("button", { name: "Dark theme" }).count(), 0);
  await plain.context.close();
}

// Compares a picture with that of the repository; gives what is wrong, if anything.
async function compared(canvas, file, picture) {
  const path = join(FOLDER, file);
  if (process.env.UPDATE_LOOKS) {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(path, picture);
    return [];
  }
  if (!existsSync(path)) return [`${file} is missing`];
  const pictures = [picture, readFileSync(path)].map((bytes) => bytes.toString("base64"));
  const share = await canvas.evaluate(difference, [...pictures, NEAR]);
  if (share <= MAX_DIFFERENT) return [];
  if (process.env.SCREENSHOTS) writeFileSync(join(process.env.SCREENSHOTS, file), picture);
  return [`${file} differs in ${(100 * share).toFixed(3)} % of its pixels`];
}

walk(async (browser) => {
  const canvas = await (await browser.newContext()).newPage();
  // Two pictures of one size and of different colours do differ.
  const flat = await canvas.screenshot();
  await canvas.setContent("<body bgcolor=black>");
  const [white, black] = [flat, await canvas.screenshot()].map((bytes) => bytes.toString("base64"));
  assert.equal(await canvas.evaluate(difference, [white, black, NEAR]), 1);
  assert.equal(await canvas.evaluate(difference, [white, white, NEAR]), 0);
  await themes(browser);
  for (const path of await paths()) await soon(browser, path);
  const wrong = [];
  for (const page of PAGES) {
    // Its hundreds of links have the form of the guide's.
    if (page[0] !== "errors") await keyboard(browser, page);
    for (const theme of THEMES) {
      for (const size of SIZES) {
        const picture = await judged(browser, page, theme, size);
        wrong.push(...(await compared(canvas, `${page[0]}-${theme}-${size[0]}.png`, picture)));
      }
    }
  }
  assert.deepEqual(wrong, [], "if the new look is meant: UPDATE_LOOKS=1 tests/clients/run looks");
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

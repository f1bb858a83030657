// The documentation: languages of code, copy buttons, the reader's test key, the table of contents, and the search.
const LANGUAGE = "docs-language";
// The page that shows a new test key keeps it here: see console.js.
const KEY = "docs-key";
const PLACE_OF_KEY = "svc_test_…";

// Browsers may be set to keep nothing.
const recall = (storage, name) => {
  try { return window[storage].getItem(name); } catch { return null; }
};
const keep = (storage, name, value) => {
  try { window[storage].setItem(name, value); } catch { /* as above */ }
};

// --- languages: the one that was chosen last is shown everywhere ---

const show = (language) => {
  for (const choice of document.querySelectorAll(`.code > input[value="${CSS.escape(language)}"]`)) choice.checked = true;
};

const language = recall("localStorage", LANGUAGE);
if (language) show(language);

document.addEventListener("change", (event) => {
  if (!event.target.matches(".code > input")) return;
  // What is chosen stays where it is on the screen, though blocks above it change.
  const before = event.target.getBoundingClientRect().top;
  show(event.target.value);
  scrollBy(0, event.target.getBoundingClientRect().top - before);
  keep("localStorage", LANGUAGE, event.target.value);
});

// --- copies ---

const copies = (button, text) => {
  const label = button.textContent;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(await text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
};

// Browsers give the clipboard to pages of https and of this machine alone.
const markdown = document.querySelector("[data-markdown]");
if (!navigator.clipboard) {
  if (markdown) markdown.hidden = true;
} else {
  for (const frame of document.querySelectorAll(".block, .code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    copies(button, () => [...frame.querySelectorAll("pre")].find((block) => block.checkVisibility()).textContent);
    if (frame.matches(".code")) frame.querySelector(":scope > div").before(button);
    else frame.querySelector(".head").append(button);
  }
  if (markdown) {
    copies(markdown, async () => {
      const answer = await fetch(markdown.dataset.markdown);
      if (!answer.ok) throw new Error(answer.statusText);
      return answer.text();
    });
  }
}

// --- the test key that the reader made in this tab ---

const fillIn = (key) => {
  const filled = [];
  for (const code of document.querySelectorAll("pre code")) {
    const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (text.data.includes(PLACE_OF_KEY)) filled.push([text, text.data]);
    }
  }
  for (const [text, data] of filled) text.data = data.replaceAll(PLACE_OF_KEY, key);
  const notice = document.querySelector(".with-key");
  if (filled.length === 0 || !notice) return;
  notice.hidden = false;
  notice.querySelector("button").addEventListener("click", () => {
    sessionStorage.removeItem(KEY);
    for (const [text, data] of filled) text.data = data;
    const field = document.getElementById("try-key");
    if (field?.value === key) field.value = "";
    notice.hidden = true;
    document.getElementById("main").focus();
  });
};

const key = recall("sessionStorage", KEY);
if (/^svc_test_\w+$/.test(key ?? "")) fillIn(key);

// --- the table of contents follows the reader, and the menu shows the page ---

const contents = new Map([...document.querySelectorAll(".toc a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
if (contents.size > 0) {
  const headings = [...contents.keys()].map((id) => document.getElementById(id)).filter(Boolean);
  const follow = () => {
    // The last heading above a line near the top; at the end of the page, the last one.
    const isEnd = scrollY > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const passed = headings.filter((heading) => heading.getBoundingClientRect().top < 120);
    const here = isEnd ? headings.at(-1) : passed.at(-1);
    for (const [id, link] of contents) {
      if (id !== here?.id) {
        link.removeAttribute("aria-current");
      } else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "location");
        const list = link.closest(".toc");
        const [top, bottom] = [link.offsetTop, link.offsetTop + link.offsetHeight];
        if (top < list.scrollTop || bottom > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 2;
      }
    }
  };
  const observer = new IntersectionObserver(follow, { rootMargin: "-120px 0px 0px 0px", threshold: [0, 1] });
  for (const heading of headings) observer.observe(heading);
  addEventListener("scrollend", follow);
  follow();
}

const here = document.querySelector(".pages [aria-current=page]");
const pages = here?.closest(".pages");
if (pages) pages.scrollTop = here.offsetTop - pages.clientHeight / 2;

// --- the search ---

const finder = document.querySelector(".finder");
const query = document.getElementById("finder-query");
const found = document.getElementById("finder-found");
const told = finder.querySelector("[role=status]");
const MAX_FOUND = 12;
const EXCERPT = 140;
let index = null;
let selected = -1;

const load = async () => {
  const answer = await fetch(finder.dataset.index);
  if (!answer.ok) throw new Error(answer.statusText);
  const entries = await answer.json();
  for (const entry of entries) {
    entry.head = (entry.part || entry.page).toLowerCase();
    // An operation's page is found by the operation's id, which its address ends with.
    entry.name = entry.path.split(/[/#]/).at(-1).toLowerCase();
    entry.words = `${entry.page} ${entry.text}`.toLowerCase();
  }
  return entries;
};

// How well a word fits: a heading counts more than text, and the beginning of a word more than its middle.
const fits = (text, word, weight) => {
  const first = text.indexOf(word);
  for (let at = first; at >= 0; at = text.indexOf(word, at + 1)) {
    if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1])) return weight;
  }
  return first < 0 ? 0 : weight / 3;
};

const score = (entry, words, whole) => {
  let sum = entry.part ? 0 : 2;
  for (const word of words) {
    const most = Math.max(fits(entry.head, word, 10), fits(entry.name, word, 10), fits(entry.words, word, 2));
    if (most === 0) return 0;
    sum += most;
  }
  const heads = [entry.head, entry.name];
  if (heads.includes(whole)) sum += 50;
  else if (heads.some((head) => head.startsWith(whole))) sum += 10;
  return sum;
};

// Adds a text in which the words are marked.
const mark = (element, text, words) => {
  const low = text.toLowerCase();
  let at = 0;
  while (at < text.length) {
    const places = words.map((word) => [low.indexOf(word, at), word]).filter(([place]) => place >= 0);
    const [next] = places.sort(([one], [other]) => one - other);
    // Few letters have another length in lower case; then nothing is marked.
    if (!next || low.length !== text.length) break;
    const marked = document.createElement("mark");
    marked.textContent = text.slice(next[0], next[0] + next[1].length);
    element.append(text.slice(at, next[0]), marked);
    at = next[0] + next[1].length;
  }
  element.append(text.slice(at));
};

const row = (entry, words, place) => {
  const link = document.createElement("a");
  link.href = entry.path;
  link.id = `finder-found-${place}`;
  link.tabIndex = -1;
  link.setAttribute("role", "option");
  mark(link, entry.part || entry.page, words);
  const where = document.createElement("span");
  where.textContent = entry.part ? `${entry.section} › ${entry.page}` : entry.section;
  const excerpt = document.createElement("span");
  const low = entry.text.toLowerCase();
  const places = words.map((word) => low.indexOf(word)).filter((place) => place >= 0);
  const from = places.length > 0 ? Math.max(0, Math.min(...places) - 40) : 0;
  mark(excerpt, (from > 0 ? "…" : "") + entry.text.slice(from, from + EXCERPT), words);
  link.append(where, excerpt);
  return link;
};

const select = (place) => {
  selected = place;
  for (const [at, link] of [...found.children].entries()) {
    link.setAttribute("aria-selected", at === place);
    if (at === place) link.scrollIntoView({ block: "nearest" });
  }
  if (place >= 0) query.setAttribute("aria-activedescendant", `finder-found-${place}`);
  else query.removeAttribute("aria-activedescendant");
};

const search = async () => {
  try {
    index ??= load();
    const entries = await index;
    const whole = query.value.trim().toLowerCase();
    const words = whole.split(/\s+/).filter(Boolean);
    const scores = words.length === 0 ? [] : entries.map((entry) => [score(entry, words, whole), entry]);
    const scored = scores.filter(([points]) => points > 0);
    scored.sort(([one], [other]) => other - one);
    const best = scored.slice(0, MAX_FOUND).map(([, entry], place) => row(entry, words, place));
    found.replaceChildren(...best);
    told.textContent = words.length === 0 ? "Press Enter to open a result, Escape to close." : `${scored.length} results`;
  } catch {
    index = null;
    found.replaceChildren();
    told.textContent = "The index of the search could not be loaded. Type again to retry.";
  }
  found.hidden = found.children.length === 0;
  query.setAttribute("aria-expanded", !found.hidden);
  select(found.hidden ? -1 : 0);
};

const find = () => {
  if (finder.open) return;
  finder.showModal();
  query.select();
  search();
};

query.addEventListener("input", search);
query.addEventListener("keydown", (event) => {
  const count = found.children.length;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && count > 0) {
    event.preventDefault();
    select((selected + step + count) % count);
  } else if (event.key === "Enter" && selected >= 0) {
    event.preventDefault();
    found.children[selected].click();
  }
});
// A link within the page leaves the page as it is, under the dialog.
found.addEventListener("click", (event) => event.target.closest("a") && finder.close());
finder.addEventListener("click", (event) => event.target === finder && finder.close());
document.querySelector(".search").addEventListener("click", find);
document.addEventListener("keydown", (event) => {
  // A search that was closed has the focus until the page is drawn again.
  const writes = event.target.closest?.("input, textarea, select, [contenteditable]")?.checkVisibility();
  const opens = event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (opens || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
    event.preventDefault();
    find();
  }
});

// Sends the request of an operation's page. A stream is read for a minute at most, and ends when the reader stops it or leaves.
const LONGEST_MS = 60_000;
// Streams replay this time by themselves, so that something is seen at once.
const REPLAY_MS = 15 * 60_000;
// Letters of an answer that are shown.
const MAX_SHOWN = 100_000;
const KEPT_KEY = "docs-key";

const form = document.querySelector(".try");
const field = document.getElementById("try-key");
const stop = form.querySelector("[data-stop]");
const status = form.querySelector(".status");
const result = form.querySelector(".result");
let running = null;

// Browsers may be set to keep nothing.
try { if (field) field.value = sessionStorage.getItem(KEPT_KEY) ?? ""; } catch { /* as above */ }
field?.addEventListener("change", () => {
  const key = field.value.trim();
  // A live key is not kept.
  try { if (/^svc_test_\w+$/.test(key)) sessionStorage.setItem(KEPT_KEY, key); } catch { /* as above */ }
});

if ("stream" in form.dataset) {
  const now = Date.now();
  for (const [name, time] of [["from", now - REPLAY_MS], ["to", now]]) {
    form.querySelector(`[data-name="${name}"]`).value = new Date(time).toISOString();
  }
}

const request = () => {
  const [headers, query] = [new Headers(), new URLSearchParams()];
  let path = form.dataset.path;
  for (const { dataset, value } of form.querySelectorAll("[data-place]")) {
    if (value === "") continue;
    // The rest of a path may have slashes.
    if (dataset.place === "path") path = path.replace(`{${dataset.name}}`, value.split("/").map(encodeURIComponent).join("/"));
    if (dataset.place === "query") query.append(dataset.name, value);
    if (dataset.place === "header") headers.set(dataset.name, value);
  }
  if (field) headers.set("Authorization", `Bearer ${field.value.trim()}`);
  const body = form.querySelector("textarea")?.value;
  if (body) headers.set("Content-Type", "application/json");
  return [query.size > 0 ? `${path}?${query}` : path, { method: form.dataset.method, headers, body: body || undefined }];
};

const shown = (text) => {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
};

// Shows the answer as it arrives.
const read = async (answer) => {
  const kind = answer.headers.get("Content-Type") ?? "";
  if (!/json|text/.test(kind)) {
    result.textContent = `${(await answer.blob()).size} bytes of ${kind || "nothing"}`;
    return;
  }
  if (!kind.startsWith("text/event-stream")) {
    result.textContent = shown(await answer.text()).slice(0, MAX_SHOWN);
    return;
  }
  const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let { value, done } = await pieces.read(); !done; { value, done } = await pieces.read()) {
    result.textContent = (result.textContent + value).slice(-MAX_SHOWN);
    result.scrollTop = result.scrollHeight;
  }
};

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  running?.abort();
  const mine = (running = new AbortController());
  const late = setTimeout(() => mine.abort(), LONGEST_MS);
  const began = performance.now();
  [stop.hidden, result.hidden, result.textContent, status.textContent] = [false, true, "", "Sending…"];
  try {
    const [address, options] = request();
    const answer = await fetch(address, { ...options, signal: mine.signal, cache: "no-store" });
    const left = answer.headers.get("X-RateLimit-Remaining");
    status.textContent = `${answer.status} after ${Math.round(performance.now() - began)} ms`;
    if (left) status.textContent += `, ${left} requests left in this minute`;
    result.hidden = false;
    await read(answer);
  } catch (error) {
    if (mine !== running) return;
    status.textContent = mine.signal.aborted ? `${status.textContent}; stopped` : `The request failed: ${error.message}`;
  } finally {
    clearTimeout(late);
    // A newer request has the button.
    if (mine === running) stop.hidden = true;
  }
});
stop.addEventListener("click", () => running?.abort());
addEventListener("pagehide", () => running?.abort());

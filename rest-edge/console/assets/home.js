// Keeps the strip of sandbox events fresh while somebody looks at the page. Without JavaScript the strip shows the events at the
// time of loading.
const INTERVAL = 2000;
const MAX_INTERVAL = 30000;
const strip = document.getElementById("events");
const pause = document.getElementById("pause");
let interval = INTERVAL;
let timer = 0;
let paused = false;

const ids = () => new Set(Array.from(strip.children, (row) => row.dataset.id));

async function refresh() {
  try {
    const response = await fetch(strip.dataset.path, { cache: "no-cache" });
    if (!response.ok) throw new Error(`${response.status}`);
    const rows = new DOMParser().parseFromString(await response.text(), "text/html").querySelectorAll("li");
    interval = INTERVAL;
    // Whoever has just paused sees no more changes.
    if (paused || !rows.length) return;
    const known = ids();
    for (const row of rows) row.classList.toggle("new", !known.has(row.dataset.id));
    if (Array.from(rows).some((row) => row.matches(".new"))) strip.replaceChildren(...rows);
  } catch {
    interval = Math.min(2 * interval, MAX_INTERVAL);
  }
}

async function tick() {
  await refresh();
  schedule(interval);
}

function schedule(after) {
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(tick, after);
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Continue" : "Pause";
  schedule(0);
});
document.addEventListener("visibilitychange", () => schedule(0));
schedule(interval);

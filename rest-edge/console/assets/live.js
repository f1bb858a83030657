// Parts of a page that stay up to date: a table to which new rows come, sections that are fetched again, and countdowns.
"use strict";
{
  // Milliseconds between two reads of a page.
  const PERIOD = 2000;
  // Most rows of a table, and most rows that wait while it is paused.
  const MOST = 200;
  // Seconds over which a rate is counted.
  const SPAN = 10;

  // This page as it is now; null when it cannot be read. Who is not signed in any more is led elsewhere.
  const read = async () => {
    try {
      const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect") return { ended: "Ended: sign in again" };
      if (!answer.ok) return answer.status === 429 || answer.status >= 500 ? null : { ended: "Ended: reload the page" };
      return { page: new DOMParser().parseFromString(await answer.text(), "text/html") };
    } catch {
      return null;
    }
  };

  // A table whose new rows come from the page itself.
  const follow = (box) => {
    const [button, pause] = box.querySelectorAll("button");
    const status = box.querySelector("[role=status]");
    const rate = box.querySelector("[data-rate]");
    const part = document.getElementById(box.dataset.tail);
    const rows = part.querySelector("tbody");
    const seen = new Set(Array.from(rows.children, (row) => row.dataset.id));
    let run = 0;
    let isPaused = false;
    let waiting = [];
    // When rows came, and how many each stands for.
    let counts = [];

    const say = (text) => {
      // Texts that stay the same are not read out again.
      if (status.textContent !== text) status.textContent = text;
    };

    const show = (row) => {
      rows.parentNode.dispatchEvent(new Event("unsort"));
      rows.prepend(document.adoptNode(row));
      while (rows.children.length > MOST) rows.lastElementChild.remove();
      part.querySelector(".table").hidden = false;
      part.querySelector("[data-empty]").hidden = true;
    };

    const tell = (now) => {
      counts = counts.filter(({ at }) => now - at < SPAN * 1000);
      const sum = counts.reduce((total, { count }) => total + count, 0);
      rate.textContent = `${(sum / SPAN).toLocaleString("en", { maximumFractionDigits: 1 })} a second`;
    };

    const take = (page, now) => {
      const found = page.getElementById(box.dataset.tail)?.querySelectorAll("tr[data-id]") ?? [];
      // The page has the newest first.
      for (const row of Array.from(found).reverse()) {
        if (seen.has(row.dataset.id)) continue;
        seen.add(row.dataset.id);
        counts.push({ at: now, count: Number(row.dataset.count ?? 1) });
        if (!isPaused) show(row);
        else waiting.push(row);
      }
      while (seen.size > 10 * MOST) seen.delete(seen.values().next().value);
      if (waiting.length > MOST) waiting = waiting.slice(-MOST);
      if (isPaused) pause.textContent = `Resume (${waiting.length})`;
      tell(now);
    };

    const resume = () => {
      isPaused = false;
      waiting.forEach(show);
      waiting = [];
      pause.textContent = "Pause";
    };

    const end = (text) => {
      run += 1;
      resume();
      button.textContent = "Follow";
      pause.hidden = true;
      rate.textContent = "";
      say(text);
    };

    const loop = async (own) => {
      const found = document.hidden ? null : await read();
      if (own !== run) return;
      if (found?.ended) return end(found.ended);
      if (found) take(found.page, Date.now());
      if (!document.hidden) say(found ? (isPaused ? "Paused" : "Following") : "Reconnecting");
      setTimeout(() => { if (own === run) loop(own); }, PERIOD);
    };

    button.addEventListener("click", () => {
      if (button.textContent !== "Follow") return end("Stopped");
      run += 1;
      counts = [];
      button.textContent = "Stop";
      pause.hidden = false;
      say("Connecting");
      loop(run);
    });
    pause.addEventListener("click", () => {
      if (isPaused) {
        resume();
      } else {
        isPaused = true;
        pause.textContent = "Resume";
      }
      say(isPaused ? "Paused" : "Following");
    });
  };

  // Sections that change by themselves, as long as they say so. A section in which somebody types stays.
  const refresh = async () => {
    const sections = document.querySelectorAll("[data-refresh]");
    if (!sections.length) return;
    const found = document.hidden ? null : await read();
    if (found?.ended) return;
    for (const section of found ? sections : []) {
      const fresh = found.page.getElementById(section.id);
      if (fresh && !section.contains(document.activeElement)) section.replaceWith(document.adoptNode(fresh));
    }
    setTimeout(refresh, PERIOD);
  };

  // The time left until a moment, in the two largest units. Without a script the page has the moment alone.
  const left = (milliseconds) => {
    const seconds = Math.max(Math.floor(milliseconds / 1000), 0);
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    if (hours) return `${hours} h ${minutes} min`;
    return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
  };
  const count = () => {
    for (const element of document.querySelectorAll("[data-until]")) {
      element.querySelector("strong").textContent = left(Date.parse(element.dataset.until) - Date.now());
      element.hidden = false;
    }
  };

  for (const box of document.querySelectorAll("[data-tail]")) follow(box);
  if (document.querySelector("[data-refresh]")) setTimeout(refresh, PERIOD);
  if (document.querySelector("[data-until]")) {
    count();
    setInterval(count, 1000);
  }
}

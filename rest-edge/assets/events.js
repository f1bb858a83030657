// New events above the history: by a stream, which a ticket of this session opens.
"use strict";
{
  // Most rows of the table, and most events that wait while it is paused.
  const MOST = 200;
  // Most ids by which an event that comes twice is recognised.
  const MOST_IDS = 2000;
  // Most characters of a thesis in a row.
  const MOST_CHARACTERS = 140;
  // Milliseconds before each further try to open a stream.
  const PAUSES = [1000, 2000, 4000, 8000, 16000];

  const cut = (text) => {
    const letters = Array.from(text);
    return letters.length > MOST_CHARACTERS ? `${letters.slice(0, MOST_CHARACTERS).join("")}…` : text;
  };

  // What an event says, as the page's own rows say it.
  const line = ({ id, type, data }) => {
    switch (type) {
      case "thesis.created":
        return `${data.profile.handle} on ${data.token.symbol}: ${cut(data.text)}`;
      case "profile.updated":
        return `${data.profile.handle} changed: ${data.changed.join(", ")}`;
      case "token.activity":
        return `${data.token.symbol}: theses in the last hour ${data.thesis_count_1h}, in 24 hours ${data.thesis_count_24h}; authors ${data.unique_authors_24h}`;
      case "token.thesis_velocity":
        return `${data.token.symbol}: theses in 5 minutes ${data.last_5m}, in the last hour ${data.last_1h}, in the hour before ${data.previous_1h}`;
      default:
        return id;
    }
  };

  const element = (name, ...children) => {
    const made = document.createElement(name);
    made.append(...children);
    return made;
  };

  const begin = (box) => {
    const [button, pause] = box.querySelectorAll("button");
    const status = box.querySelector("[role=status]");
    const rows = document.querySelector("#events tbody");
    const ids = new Set();
    let stream = null;
    // The run that a late answer belongs to: pressing the button begins another.
    let run = 0;
    let tries = 0;
    let cursor = "";
    let gap = "";
    let isPaused = false;
    let waiting = [];
    let count = 0;

    const say = (text) => { status.textContent = text + gap; };

    const tell = () => {
      if (isPaused) say("Paused");
      else say(stream?.readyState === EventSource.OPEN ? "Live" : "Reconnecting");
    };

    const show = (event) => {
      const link = element("a", line(event));
      link.href = box.dataset.events + encodeURIComponent(event.id);
      const at = `${event.created_at.slice(0, 10)} ${event.created_at.slice(11, 16)} UTC`;
      const source = event.test ? `${event.source}, test` : event.source;
      rows.prepend(element("tr", element("td", at), element("td", element("code", event.type)), element("td", link), element("td", source)));
      while (rows.children.length > MOST) rows.lastElementChild.remove();
      rows.closest(".table").hidden = false;
      document.getElementById("no-events").hidden = true;
    };

    const take = (event) => {
      if (ids.has(event.id)) return;
      ids.add(event.id);
      if (ids.size > MOST_IDS) ids.delete(ids.values().next().value);
      if (!isPaused) return show(event);
      waiting.push(event);
      if (waiting.length > MOST) waiting.shift();
      count += 1;
      pause.textContent = `Resume (${count})`;
    };

    const resume = () => {
      isPaused = false;
      waiting.forEach(show);
      waiting = [];
      count = 0;
      pause.textContent = "Pause";
    };

    const end = (text) => {
      run += 1;
      stream?.close();
      stream = null;
      resume();
      button.textContent = "Live";
      pause.hidden = true;
      say(text);
    };

    const again = (own) => {
      if (tries >= PAUSES.length) return end("Ended: the stream cannot be opened; press Live to try again");
      tell();
      setTimeout(() => { if (own === run) open(own); }, PAUSES[tries]);
      tries += 1;
    };

    const listen = (own, source) => {
      stream = source;
      const on = (type, act) => source.addEventListener(type, (message) => {
        if (own !== run) return;
        cursor = message.lastEventId || cursor;
        act(message.data);
      });
      for (const type of box.dataset.types.split(" ")) on(type, (data) => take(JSON.parse(data)));
      on("stream.cursor", () => {});
      on("stream.gap", (data) => {
        const { skipped } = JSON.parse(data);
        gap = `. ${skipped ?? "More than 10,000"} events were missed: reload the page to see them.`;
        tell();
      });
      source.addEventListener("open", () => {
        if (own !== run) return;
        tries = 0;
        tell();
      });
      source.addEventListener("error", () => {
        if (own !== run) return;
        if (source.readyState === EventSource.CLOSED) again(own);
        else tell();
      });
    };

    const open = async (own) => {
      let answer;
      let ticket;
      try {
        const csrf = document.querySelector("input[name=csrf]").value;
        const body = new URLSearchParams({ csrf });
        answer = await fetch(box.dataset.ticket, { method: "POST", redirect: "manual", body });
        if (answer.ok) ({ ticket } = await answer.json());
      } catch {
        return own === run && again(own);
      }
      if (own !== run) return;
      // Who is not signed in is led to the sign-in page.
      if (answer.type === "opaqueredirect") return end("Ended: sign in again");
      if (answer.status === 429 || answer.status >= 500) return again(own);
      if (!answer.ok) return end("Ended: reload the page");
      const address = new URL(box.dataset.stream, location.href);
      address.searchParams.set("ticket", ticket);
      if (cursor) address.searchParams.set("from_cursor", cursor);
      listen(own, new EventSource(address));
    };

    button.addEventListener("click", () => {
      if (button.textContent !== "Live") return end("Stopped");
      run += 1;
      tries = 0;
      gap = "";
      button.textContent = "Stop";
      pause.hidden = false;
      say("Connecting");
      open(run);
    });
    pause.addEventListener("click", () => {
      if (isPaused) {
        resume();
      } else {
        isPaused = true;
        pause.textContent = "Resume";
      }
      tell();
    });
    box.hidden = false;
  };

  const box = document.getElementById("live");
  if (box) begin(box);
}

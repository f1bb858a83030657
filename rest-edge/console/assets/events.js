// New or replayed events above the history: by a stream, which a ticket of this session opens.
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
      case "alert.firing":
      case "alert.resolved":
        return `${data.alert.name}: ${data.alert.token.symbol} at ${data.value}`;
      default:
        return id;
    }
  };

  // How many events a gap skipped, in words.
  const missed = (skipped) => {
    if (skipped === 1) return "1 event was missed";
    return `${skipped ?? "More than 10,000"} events were missed`;
  };

  const element = (name, ...children) => {
    const made = document.createElement(name);
    made.append(...children);
    return made;
  };

  // An answer of the console; its status is 0 when none came.
  const ask = async (address, options) => {
    try {
      const answer = await fetch(address, { redirect: "manual", cache: "no-store", ...options });
      const { ok, status, type } = answer;
      return { ok, status, isLedAway: type === "opaqueredirect", text: await answer.text() };
    } catch {
      return { ok: false, status: 0, isLedAway: false, text: "" };
    }
  };

  // Why a stream is not opened, which EventSource does not tell: status, and message if there is one.
  const refusal = async (address) => {
    const asking = new AbortController();
    try {
      const answer = await fetch(address, { credentials: "omit", cache: "no-store", signal: asking.signal });
      if (answer.ok) return { status: answer.status, message: "" };
      const { error } = await answer.json();
      return { status: answer.status, message: error.message };
    } catch {
      return { status: 0, message: "" };
    } finally {
      asking.abort();
    }
  };

  const begin = (box) => {
    const [button, pause] = box.querySelectorAll("button");
    const status = box.querySelector("[role=status]");
    const rate = box.querySelector("[data-rate]");
    const code = box.querySelector("#resume");
    // Each sample has its cursor where this word stands last.
    const samples = [...code.querySelectorAll("code")].map((sample) => {
      const text = sample.textContent;
      const at = text.lastIndexOf("CURSOR");
      return [sample, text.slice(0, at), text.slice(at + "CURSOR".length)];
    });
    const ids = new Set();
    // When the newest events came.
    let times = [];
    // The parameters of the replay by their names; null without one. The page's history is then not shown.
    let replay = null;
    let stream = null;
    // The run that a late answer belongs to: pressing the button begins another.
    let run = 0;
    let tries = 0;
    // Why the last try was refused.
    let reason = "";
    let cursor = "";
    let gap = "";
    // Whether the page's history reaches up to where its streams began. Until then their events are held.
    let isJoined = false;
    // The try that comes next.
    let due = null;
    // The fetch of the history that is under way.
    let joining = null;
    let held = [];
    let isPaused = false;
    let waiting = [];
    let count = 0;

    const say = (text) => {
      // Texts that stay the same are not read out again.
      if (status.textContent !== text + gap) status.textContent = text + gap;
    };

    const tell = () => {
      if (isPaused) return say(count > MOST ? `Paused. Only the newest ${MOST} are kept: the history has all` : "Paused");
      if (isJoined && stream?.readyState === EventSource.OPEN) return say(replay ? "Replaying" : "Following");
      say((isJoined ? "Reconnecting" : "Connecting") + (reason && `: ${reason}`));
    };

    // Events a second, over the last ten.
    const measure = () => {
      const now = Date.now();
      times = times.filter((time) => now - time < 10_000);
      rate.textContent = stream ? `${(times.length / 10).toLocaleString("en")} a second` : "";
    };

    const offer = () => {
      code.hidden = !cursor;
      if (cursor) for (const [sample, before, after] of samples) sample.textContent = before + cursor + after;
    };

    const show = (event, isOld) => {
      const rows = document.querySelector("#events tbody");
      const link = element("a", line(event));
      link.href = box.dataset.events + encodeURIComponent(event.id);
      // Another script shows it in the visitor's zone.
      const at = element("time", `${event.created_at.slice(0, 10)} ${event.created_at.slice(11, 16)} UTC`);
      at.dateTime = event.created_at;
      const source = event.test ? `${event.source}, test` : event.source;
      const cells = [at, element("code", event.type), link, source].map((content) => element("td", content));
      const row = element("tr", ...cells);
      row.dataset.id = event.id;
      rows.parentNode.dispatchEvent(new Event("unsort"));
      if (isOld) rows.append(row);
      else rows.prepend(row);
      while (rows.children.length > MOST) rows.lastElementChild.remove();
      rows.closest(".table").hidden = false;
      document.getElementById("no-events").hidden = true;
    };

    const isNew = ({ id }) => {
      if (ids.has(id)) return false;
      ids.add(id);
      if (ids.size > MOST_IDS) ids.delete(ids.values().next().value);
      return true;
    };

    // Keeps an event for later; the oldest of too many make room.
    const keep = (events, event) => {
      events.push(event);
      if (events.length > MOST) events.shift();
    };

    const take = (event) => {
      if (!isJoined) return keep(held, event);
      if (!isNew(event)) return;
      times.push(Date.now());
      if (!isPaused) return show(event, false);
      keep(waiting, event);
      count += 1;
      pause.textContent = `Resume (${waiting.length})`;
      if (count > MOST) tell();
    };

    const resume = () => {
      isPaused = false;
      waiting.forEach((event) => show(event, false));
      waiting = [];
      count = 0;
      pause.textContent = "Pause";
    };

    // The next stream begins from then on, and the history is fetched anew.
    const forget = () => {
      resume();
      pause.hidden = true;
      cursor = "";
      ids.clear();
      isJoined = Boolean(replay);
      joining = null;
      held = [];
    };

    // Where the fields name a time to replay from, an empty table is filled by the replay.
    const prepare = () => {
      const fields = box.querySelectorAll("[data-replay]");
      const given = Object.fromEntries(Array.from(fields, (field) => [field.dataset.replay, field.value]));
      const wasReplay = Boolean(replay);
      replay = null;
      if (!given.from) {
        // The table has events of the past, so the history is fetched anew.
        if (wasReplay) forget();
        return;
      }
      const utc = (time) => time && `${time}Z`;
      replay = { from: utc(given.from), to: utc(given.to), speed: given.speed };
      forget();
      document.querySelector("#events tbody").replaceChildren();
    };

    const end = (text) => {
      run += 1;
      stream?.close();
      stream = null;
      // What is held back is on no page, so the cursor is past it.
      if (!isJoined) forget();
      resume();
      button.textContent = "Follow";
      pause.hidden = true;
      say(text);
    };

    // Tries once more, after a pause; `address` is the stream's, if it was refused. Of two that want to, the later one does.
    const again = async (own, address) => {
      const mine = {};
      due = mine;
      stream?.close();
      reason = "";
      if (address) {
        if (cursor) address.searchParams.set("from_cursor", cursor);
        const { status: code, message } = await refusal(address);
        if (own !== run || due !== mine) return;
        if (code === 204) return end("The replay is complete");
        // Other times or rights are needed.
        if (replay && (code === 403 || code === 422)) return end(`Ended: ${message}`);
        reason = message;
        // The cursor is of no use any more.
        if (code === 400) forget();
      }
      if (tries >= PAUSES.length) {
        forget();
        return end(`Ended: ${reason || "the stream cannot be opened"}; press Follow to try again`);
      }
      tell();
      setTimeout(() => { if (own === run && due === mine) open(own); }, PAUSES[tries]);
      tries += 1;
    };

    // Whether an answer of the console is the one that was asked for. If not, it is tried again, or all ends.
    const isAnswer = (own, { ok, status: code, isLedAway }) => {
      if (ok) return true;
      // Who is not signed in is led to the sign-in page.
      if (isLedAway) end("Ended: sign in again");
      else if (code === 0 || code === 429 || code >= 500) again(own);
      else end("Ended: reload the page");
      return false;
    };

    // Fetches the page's history once more when the stream is open: what came before the stream is there, what comes
    // after is held, and what is in both is shown once.
    const join = async (own) => {
      if (joining) return;
      const mine = {};
      joining = mine;
      const answer = await ask(location.href);
      if (joining !== mine) return;
      joining = null;
      if (!isAnswer(own, answer)) return;
      const history = new DOMParser().parseFromString(answer.text, "text/html").getElementById("history");
      if (!history) return end("Ended: reload the page");
      document.getElementById("history").replaceWith(history);
      for (const row of history.querySelectorAll("tr[data-id]")) ids.add(row.dataset.id);
      isJoined = true;
      tries = 0;
      pause.hidden = false;
      const last = held.findLastIndex(({ id }) => ids.has(id));
      // So many came that the fetched page ends above these.
      held.slice(0, Math.max(last, 0)).reverse().filter(isNew).forEach((event) => show(event, true));
      held.slice(last + 1).forEach(take);
      held = [];
      tell();
    };

    const listen = (own, source, address) => {
      stream = source;
      const on = (type, act) => source.addEventListener(type, (message) => {
        if (own !== run) return;
        cursor = message.lastEventId || cursor;
        act(message.data);
        offer();
      });
      for (const type of box.dataset.types.split(" ")) on(type, (data) => take(JSON.parse(data)));
      // Each stream begins with one, so that there is a cursor before the history is fetched.
      on("stream.cursor", () => {
        reason = "";
        if (!isJoined) return join(own);
        tries = 0;
        tell();
      });
      on("stream.end", () => end("The replay is complete"));
      on("stream.gap", (data) => {
        gap = `. ${missed(JSON.parse(data).skipped)}: the history has them`;
        tell();
      });
      source.addEventListener("error", () => {
        if (own !== run) return;
        if (source.readyState === EventSource.CLOSED) again(own, address);
        else tell();
      });
    };

    const open = async (own) => {
      const csrf = document.querySelector("input[name=csrf]").value;
      // With this header a page that refuses the ticket answers at once.
      const headers = { "x-script": "events" };
      const answer = await ask(box.dataset.ticket, { method: "POST", headers, body: new URLSearchParams({ csrf }) });
      if (own !== run || !isAnswer(own, answer)) return;
      const address = new URL(box.dataset.stream, location.href);
      address.searchParams.set("ticket", JSON.parse(answer.text).ticket);
      if (cursor) address.searchParams.set("from_cursor", cursor);
      for (const [name, value] of Object.entries(replay ?? {})) {
        if (value) address.searchParams.set(name, value);
      }
      listen(own, new EventSource(address), address);
    };

    button.addEventListener("click", () => {
      if (button.textContent !== "Follow") return end("Stopped");
      run += 1;
      tries = 0;
      gap = "";
      reason = "";
      button.textContent = "Stop";
      prepare();
      pause.hidden = !isJoined;
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
    setInterval(measure, 1000);
  };

  const box = document.getElementById("live");
  if (box) begin(box);
}

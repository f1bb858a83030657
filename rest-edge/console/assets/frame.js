// What a browser adds to the console's pages: tables that sort and are saved as CSV, the palette, notices that can be closed,
// and first steps that stay done. Everything on the pages works without it.
"use strict";

// --- fields of times, which are in UTC: the same time in the zone of the visitor, where that is another one ---
for (const field of document.querySelectorAll("input[type=datetime-local][name]")) {
  const note = document.createElement("p");
  note.className = "hint";
  const style = { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" };
  const tell = () => {
    const at = new Date(`${field.value}Z`);
    note.hidden = Number.isNaN(at.getTime()) || at.getTimezoneOffset() === 0;
    note.textContent = note.hidden ? "" : `${at.toLocaleString("en", style)} in your zone`;
  };
  field.addEventListener("input", tell);
  field.after(note);
  tell();
}

// --- tables: sorting by each column, the first rows of long ones, and CSV ---
{
  const SHOWN = 50;
  // What a cell says; that of a form is its saved value.
  const words = (cell) => {
    const field = cell.querySelector("select, input:not([type=hidden])");
    const options = [...(field?.options ?? [])];
    const taken = options.find((option) => option.defaultSelected) ?? options[0];
    const said = field && (taken?.textContent ?? field.defaultValue);
    return cell.querySelector("time")?.dateTime ?? (said ?? cell.textContent).trim().replace(/\s+/g, " ");
  };
  const number = (text) => Number(text.replaceAll(",", "").replace(/ %$/, ""));
  const compare = (one, other) => {
    const [a, b] = [number(one), number(other)];
    return one !== "" && other !== "" && !Number.isNaN(a) && !Number.isNaN(b) ? a - b : one.localeCompare(other, "en");
  };
  // A spreadsheet must not read a text as a formula, nor the rest of a text behind a semicolon, which separates the
  // fields in many countries.
  const field = (text) => {
    const safe = Number.isNaN(number(text)) ? text.replace(/(^|[;\n])(?=\s*[=+\-@＝＋－＠]|[\t\r])/g, "$1'") : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const button = (name, text) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = name;
    made.textContent = text;
    return made;
  };

  const equip = (box) => {
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    // Buttons and drawings of rows are no data.
    const isPlain = (head) => "plain" in head.dataset || /^(|actions?|remove|withdraw)$/i.test(head.textContent.trim());
    const isData = heads.map((head) => !isPlain(head));
    const rows = () => [...body.rows];
    // The rows in the page's own order, if they are sorted.
    let unsorted = null;
    // Tables that can be followed get their rows later.
    if (rows().length > 1 || document.querySelector("#live, [data-tail]")) {
      heads.forEach((head, column) => {
        if (!isData[column]) return;
        const sort = button("sort", head.textContent);
        head.replaceChildren(sort);
        sort.addEventListener("click", () => {
          const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
          unsorted ??= rows();
          heads.forEach((other) => other.removeAttribute("aria-sort"));
          head.setAttribute("aria-sort", order);
          const sign = order === "ascending" ? 1 : -1;
          const sorted = rows().sort((a, b) => sign * compare(words(a.cells[column]), words(b.cells[column])));
          body.append(...sorted);
          hide();
        });
      });
      // What follows the newest rows puts them on top, and takes the last ones away.
      table.addEventListener("unsort", () => {
        if (!unsorted) return;
        heads.forEach((head) => head.removeAttribute("aria-sort"));
        body.append(...unsorted.filter((row) => row.parentNode === body));
        unsorted = null;
        hide();
      });
    }
    const after = document.createElement("div");
    after.className = "after-table";
    const more = button("button quiet small", "");
    let isWhole = rows().length <= SHOWN;
    const hide = () => {
      rows().forEach((row, at) => { row.hidden = !isWhole && at >= SHOWN; });
      more.hidden = isWhole;
    };
    more.textContent = `Show all ${rows().length} rows`;
    more.addEventListener("click", () => { isWhole = true; hide(); });
    const save = button("button quiet small", "Save as CSV");
    save.addEventListener("click", () => {
      const line = (cells, text) => cells.filter((_, column) => isData[column]).map((cell) => field(text(cell))).join(",");
      const plain = (head) => head.textContent.trim();
      const lines = [line(heads, plain), ...rows().map((row) => line([...row.cells], words))];
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
      link.download = `${box.dataset.table}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
    });
    after.append(more, save);
    box.after(after);
    hide();
  };
  const equipAll = (root) => root.querySelectorAll("[data-table]").forEach(equip);
  equipAll(document);
  // A page that follows events replaces its table.
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) if (node.querySelectorAll) equipAll(node);
  }).observe(document.getElementById("main"), { childList: true, subtree: true });
}

// --- notices: in the page, so they hide nothing; a reload does not bring them back ---
for (const notice of document.querySelectorAll(".toast")) {
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "×";
  close.setAttribute("aria-label", "Close the notice");
  close.addEventListener("click", () => notice.remove());
  notice.append(close);
  const address = new URL(location.href);
  address.searchParams.delete("done");
  history.replaceState(history.state, "", address);
}

// --- first steps: streams and verifications leave no lasting sign, so the browser remembers what it saw done ---
for (const list of document.querySelectorAll("[data-steps]")) {
  const name = `steps-${list.dataset.steps}`;
  let known = [];
  // Browsers may be set to keep nothing.
  try { known = JSON.parse(localStorage.getItem(name)) ?? []; } catch { /* as above */ }
  const steps = [...list.querySelectorAll("[data-step]")];
  for (const step of steps) {
    if (!known.includes(step.dataset.step)) continue;
    step.classList.add("done");
    step.querySelector("[data-step-word]").textContent = " (done)";
  }
  const done = steps.filter((step) => step.classList.contains("done")).map((step) => step.dataset.step);
  list.querySelector("[data-steps-done]").textContent = done.length;
  list.hidden = done.length === steps.length;
  try { localStorage.setItem(name, JSON.stringify(done)); } catch { /* as above */ }
}

// --- the palette: the page that finds others, in a dialog ---
{
  const form = document.querySelector("form[data-find]");
  const dialog = document.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Go to");
  const input = document.createElement("input");
  // Escape would first empty a field for searching, and not close the dialog.
  input.type = "text";
  input.autocomplete = "off";
  input.placeholder = form.elements.q.placeholder;
  input.setAttribute("aria-label", "Go to");
  let list = document.createElement("div");
  dialog.append(input, list);
  document.body.append(dialog);

  const links = () => [...list.querySelectorAll("a")];
  const choose = (link) => {
    links().forEach((other) => other.classList.toggle("chosen", other === link));
    link?.scrollIntoView({ block: "nearest" });
  };
  let asked = 0;
  const find = async () => {
    const own = ++asked;
    const query = new URLSearchParams(new FormData(form));
    query.set("q", input.value);
    try {
      const answer = await fetch(`${form.action}?${query}`);
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("found");
      if (own !== asked) return;
      // Whoever is signed out meanwhile is led to the page that says so.
      if (!found) location.reload();
      else {
        found.removeAttribute("id");
        list.replaceWith(found);
        list = found;
        choose(links()[0]);
      }
    } catch {
      if (own === asked) list.textContent = "The service cannot be reached. Try again.";
    }
  };
  let wait;
  input.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(find, 120);
  });
  input.addEventListener("keydown", (event) => {
    const all = links();
    const at = all.findIndex((link) => link.classList.contains("chosen"));
    if (event.key === "ArrowDown") choose(all[Math.min(at + 1, all.length - 1)]);
    else if (event.key === "ArrowUp") choose(all[Math.max(at - 1, 0)]);
    else if (event.key === "Enter" && at >= 0) all[at].click();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  const open = () => {
    if (dialog.open) return;
    input.value = form.elements.q.value;
    dialog.showModal();
    find();
  };
  form.elements.q.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    open();
  });
}

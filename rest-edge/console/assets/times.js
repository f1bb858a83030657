// Shows the times of a page in the visitor's zone, with UTC on hover. Without it they are in UTC.
"use strict";
{
  const part = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const minute = new Intl.DateTimeFormat("en", part);
  const exact = new Intl.DateTimeFormat("en", { ...part, second: "2-digit", fractionalSecondDigits: 3 });
  const show = (time) => {
    const at = new Date(time.dateTime);
    if (time.title || Number.isNaN(at.getTime())) return;
    time.title = time.textContent;
    time.textContent = (/:\d\d:/.test(time.title) ? exact : minute).format(at);
  };
  // What a chart says on hover is text alone, so it names both.
  const showTitle = (title) => {
    if (title.dataset.utc) return;
    title.dataset.utc = title.textContent;
    title.textContent = title.dataset.utc.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC/, (utc, day, clock) =>
      `${minute.format(new Date(`${day}T${clock}Z`))} (${utc})`);
  };
  const showAll = (root) => {
    root.querySelectorAll("time[datetime]").forEach(show);
    root.querySelectorAll("svg.chart g > title").forEach(showTitle);
  };
  showAll(document);
  // Pages that follow events add rows.
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) if (node.querySelectorAll) showAll(node);
  }).observe(document.getElementById("main"), { childList: true, subtree: true });
}

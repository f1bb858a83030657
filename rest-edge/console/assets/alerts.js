// The form of a new alert: its chart follows what is typed. Without a script, a button brings the page again with the chart.
"use strict";
{
  const DRAWN = ["token", "metric", "direction", "threshold", "recover"];
  const form = document.querySelector("form[data-chart]");
  const address = form.querySelector("[formaction]").formAction;
  let reading = new AbortController();

  // The part with the chart, as the typed values have it; it is empty when one of them is wrong.
  const read = async (signal) => {
    try {
      const body = new URLSearchParams(new FormData(form));
      // With this header the page answers the form at once.
      const headers = { "x-script": "alerts" };
      const answer = await fetch(address, { method: "POST", headers, body, redirect: "manual", cache: "no-store", signal });
      return new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
    } catch {
      return null;
    }
  };

  form.addEventListener("change", async ({ target }) => {
    if (!DRAWN.includes(target.name) || !form.elements.token.value.trim()) return;
    reading.abort();
    reading = new AbortController();
    const { signal } = reading;
    const fresh = await read(signal);
    if (fresh && !signal.aborted) document.getElementById("preview").replaceWith(document.adoptNode(fresh));
  });
}

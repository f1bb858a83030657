// The theme: that of the system, unless the reader chose the other one. It runs before anything is drawn, so nothing flashes.
"use strict";

{
  const KEPT = "theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const ofSystem = () => (system.matches ? "dark" : "light");
  const shown = () => root.dataset.theme ?? ofSystem();

  const recall = () => {
    // Browsers may be set to keep nothing.
    try { return localStorage.getItem(KEPT); } catch { return null; }
  };
  const keep = (theme) => {
    try {
      if (theme) localStorage.setItem(KEPT, theme);
      else localStorage.removeItem(KEPT);
    } catch { /* as above */ }
  };
  const show = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    for (const button of document.querySelectorAll("button.theme")) button.setAttribute("aria-pressed", shown() === "dark");
  };

  root.classList.add("scripted");
  show(recall());
  document.addEventListener("DOMContentLoaded", () => show(recall()));
  document.addEventListener("click", ({ target }) => {
    if (!target.closest?.("button.theme")) return;
    const other = shown() === "dark" ? "light" : "dark";
    // Who chooses what the system has follows the system again.
    const chosen = other === ofSystem() ? null : other;
    keep(chosen);
    show(chosen);
  });
  system.addEventListener("change", () => show(recall()));
  // Other tabs follow, and so do pages that a browser kept.
  window.addEventListener("storage", ({ key }) => key === KEPT && show(recall()));
  window.addEventListener("pageshow", () => show(recall()));
}

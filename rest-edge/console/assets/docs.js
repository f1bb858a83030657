// Blocks of code: the language that was chosen last is shown everywhere, and each block can be copied.
"use strict";

const KEPT = "docs-language";

const show = (language) => {
  for (const choice of document.querySelectorAll(`.code > input[value="${CSS.escape(language)}"]`)) choice.checked = true;
};

const recall = () => {
  // Browsers may be set to keep nothing.
  try { return localStorage.getItem(KEPT); } catch { return null; }
};

const kept = recall();
if (kept) show(kept);

document.addEventListener("change", (event) => {
  if (!event.target.matches(".code > input")) return;
  // What is chosen stays where it is on the screen, though blocks above it change.
  const before = event.target.getBoundingClientRect().top;
  show(event.target.value);
  scrollBy(0, event.target.getBoundingClientRect().top - before);
  try { localStorage.setItem(KEPT, event.target.value); } catch { /* as above */ }
});

// Browsers give the clipboard to pages of https and of this machine alone.
for (const block of navigator.clipboard ? document.querySelectorAll("main pre") : []) {
  const frame = document.createElement("div");
  frame.className = "block";
  block.replaceWith(frame);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button small";
  button.textContent = "Copy";
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  frame.append(block, button);
}

// Copy buttons: beside every field, id or code with an empty `data-copy`, and buttons whose `data-copy` names a field or a text.
"use strict";

const copy = async (button, field) => {
  try {
    await navigator.clipboard.writeText(field.value ?? field.textContent);
  } catch {
    if (field.select) field.select();
    else getSelection().selectAllChildren(field);
    document.execCommand("copy");
  }
  const text = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = text; }, 2000);
};

for (const found of document.querySelectorAll("[data-copy]")) {
  let button = found;
  let field = document.getElementById(found.dataset.copy);
  if (!found.dataset.copy) {
    field = found;
    button = document.createElement("button");
    button.type = "button";
    button.className = found instanceof HTMLInputElement ? "button quiet" : "copy";
    button.textContent = "Copy";
    found.after(button);
  }
  if (field) {
    button.hidden = false;
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", () => copy(button, field));
  }
}

// A form is sent once, however often its button is pressed.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  });
}
// Who comes back to a page may send its forms again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// A page that a form brought keeps its address alone: a reload and the way back ask for the address, which leads to the
// page with the form, and do not send the form again.
history.replaceState(history.state, "", location.href);

// One menu at a time, and none after Escape or a click elsewhere.
const close = (but) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(but)) menu.open = false;
  }
};
document.addEventListener("click", (event) => close(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = document.activeElement?.closest("details.menu[open]");
  close(null);
  open?.querySelector("summary").focus();
});

// A test key that was just made stays in this tab, for the examples of the documentation: the service itself has only its
// hash. Pages run no scripts but those of the service, which alone can read it. Live keys are not kept.
const newKey = document.querySelector("[data-test-key]");
// Browsers may be set to keep nothing.
try { if (newKey) sessionStorage.setItem("docs-key", newKey.value); } catch { /* as above */ }
document.querySelector("form[action='/console/sign-out']")?.addEventListener("submit", () => {
  try { sessionStorage.removeItem("docs-key"); } catch { /* as above */ }
});

// Keys of the pages: j and k between entries, / to search, u up, ? for help, and those of a page. Everything works
// without them.

"use strict";

const help = document.querySelector("dialog.help");
const helpButton = document.querySelector("[data-help]");

const rows = () => [...document.querySelectorAll("[data-row]")];
const linkOf = (row) => row.querySelector("a, input, button");
const follow = (selector) => document.querySelector(selector)?.click();

/** Move the focus to the entry after or before the focused one. On the page of an entry, open its neighbour. */
function step(by) {
  const all = rows();
  if (all.length === 0) {
    follow(by > 0 ? "[data-next]" : "[data-previous]");
    return;
  }
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
  const target = all[next] && linkOf(all[next]);
  target?.focus();
  target?.scrollIntoView({ block: "nearest" });
}

const KEYS = new Map([
  ["j", () => step(1)],
  ["k", () => step(-1)],
  ["u", () => follow("[data-up]")],
  ["/", () => document.querySelector("[data-search], .filters input:not([type=hidden])")?.focus()],
  ["?", () => help.showModal()],
]);

// What a page does on a key: the element with data-key. A folded part is opened, a field gets the focus.
function press(key) {
  const near = document.activeElement?.closest("[data-keys]") ?? document;
  const named = `[data-key="${CSS.escape(key)}"]`;
  const target = near.querySelector(named) ?? document.querySelector(named);
  if (!target) return false;
  const folded = target.closest("details");
  if (folded) folded.open = true;
  if (target.matches("summary")) folded.querySelector("input:not([type=hidden]), button:enabled, select, textarea")?.focus();
  else if (target.matches("input:not([type=radio])")) target.focus();
  else target.click();
  if (target.matches("[type=radio]")) target.focus();
  return true;
}

const isTyping = (element) => element.matches("input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]");

// Out of a field, to the form whose keys then work.
function leave(field) {
  field.blur();
  field.closest("[data-keys]")?.querySelector("button:enabled")?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
  if (event.target instanceof Element && isTyping(event.target)) {
    if (event.key === "Escape") leave(event.target);
    return;
  }
  if (event.key.length === 1 && press(event.key)) {
    event.preventDefault();
    return;
  }
  const act = KEYS.get(event.key);
  if (!act) return;
  event.preventDefault();
  act();
});

if (helpButton) {
  helpButton.hidden = false;
  helpButton.addEventListener("click", () => help.showModal());
}

// A menu closes when the focus leaves it, or by Escape.
for (const menu of document.querySelectorAll("details.menu")) {
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// A part of a page that cannot be loaded is replaced by the page that says why.
document.body.addEventListener("htmx:responseError", (event) => {
  location.assign(event.detail.pathInfo.finalRequestPath ?? location.href);
});

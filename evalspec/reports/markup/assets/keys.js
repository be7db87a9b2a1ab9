// Keys of the report and of the pages of the service: j and k between entries, / to search, u up, ? for help, and those
// of a page. Everything works without them. In an open dialog, they are about what is in it.

const help = document.querySelector("dialog.help");
const helpButton = document.querySelector("[data-help]");

const scope = () => document.querySelector("dialog[open]") ?? document;
const rowsOf = (element) => [...element.querySelectorAll("[data-row]")];
const linkOf = (row) => row.querySelector("a, input, button") ?? row;
const follow = (selector) => scope().querySelector(selector)?.click();

/** Move the focus to the entry after or before the focused one. On the page of an entry, open its neighbour. */
function step(by) {
  const all = rowsOf(scope());
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
  ["/", () => scope().querySelector("[data-search]")?.focus()],
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

// Keys of the page, as on the pages of the service, and links to folded parts. Everything works without them.

const keysDialog = el(
  "dialog",
  { class: "help", "aria-labelledby": "keys-title" },
  el("h2", { id: "keys-title" }, "Keys"),
  el("dl", { class: "definitions" }),
  el("div", { class: "buttons" }, el("button", { type: "button", click: () => keysDialog.close() }, "Close")),
);

const keysButton = () =>
  el("button", { type: "button", class: "keys", "aria-label": "Keys", click: () => keysDialog.showModal() }, "?");

/** `step(by)`: goes to the next or previous sample. `search()`: focuses the search field; null: there is none. */
function listenToKeys({ step, search = null }) {
  const keys = [
    ["j", "next sample", () => step(1)],
    ["k", "previous sample", () => step(-1)],
    ...(search ? [["/", "search", search]] : []),
    ["?", "these keys", () => keysDialog.showModal()],
  ];
  keysDialog.querySelector("dl").replaceChildren(
    ...[...keys, ["Esc", "close"]].map(([key, said]) =>
      el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, said)),
    ),
  );
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || keysDialog.open) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = keys.find(([key]) => key === event.key)?.[2];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** Move the focus to the row after or before the focused one. */
function stepRows(element, by) {
  const rows = [...element.querySelectorAll("[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
  if (!row) return;
  (row.querySelector("a") ?? row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

/** Open the part of the page that the URL names, if it is folded. */
function followToPart() {
  const part = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  const folds = part && part.querySelector(":scope > .foldable");
  if (!folds || folds.open) return;
  folds.open = true;
  part.scrollIntoView();
}

window.addEventListener("hashchange", followToPart);

// Long lists show their first items at first, and on a phone, parts of the page are folded.

const ROWS_AT_ONCE = isPhone ? 5 : 25;
const ENTRIES_AT_ONCE = isPhone ? 3 : 10;

/** Take the later items out of a list, and put a button below it that brings them back. */
function shorten(list, most, noun) {
  const items = [...list.children];
  if (items.length <= most + 1) return;
  const rest = items.slice(most);
  for (const item of rest) item.remove();
  const showAll = () => {
    list.append(...rest);
    button.remove();
    rest[0].setAttribute("tabindex", "-1");
    rest[0].focus({ preventScroll: true });
  };
  const button = el("button", { type: "button", click: showAll }, `Show all ${counted(items.length, noun)}`);
  (list.closest(".scroll") ?? list).after(button);
}

/** Put everything below the heading of a part into one that is folded by it. */
function foldPart(part) {
  const [heading, ...others] = part.children;
  const content = el("div", { class: "folded" }, others);
  part.append(
    el("details", { class: "foldable", open: part.dataset.folds === "open" }, el("summary", {}, heading), content),
  );
}

/** Open the part of the page that the URL names, if it is folded. */
function followToPart() {
  const part = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  const folds = part && part.querySelector(":scope > .foldable");
  if (!folds || folds.open) return;
  folds.open = true;
  part.scrollIntoView();
}

/** Shorten and fold each part of the page, once. */
function foldParts() {
  for (const part of document.querySelectorAll("[data-folds]:not([data-folded])")) {
    part.dataset.folded = "";
    for (const body of part.querySelectorAll("table.cards > tbody")) shorten(body, ROWS_AT_ONCE, "row");
    for (const list of part.querySelectorAll("ol.entries")) shorten(list, ENTRIES_AT_ONCE, list.dataset.noun);
    if (!isPhone) continue;
    for (const folded of part.querySelectorAll("details[open]")) folded.open = false;
    foldPart(part);
  }
}

foldParts();
window.addEventListener("hashchange", followToPart);
followToPart();

// The only code that creates elements: texts become text nodes, and attributes are set by name.

/** The data that the page shows immediately. */
const overview = JSON.parse(document.getElementById("overview").textContent);

/** Flatten nested lists of parts, without null, undefined, false and empty texts. */
const present = (parts) => parts.flat(Infinity).filter((part) => part || part === 0);

const making =
  (create) =>
  (name, properties = {}, ...children) => {
    const element = create(name);
    for (const [key, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === "function") element.addEventListener(key, value);
      else element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...present(children));
    return element;
  };

/** Whether the page is laid out for a phone, as in the styles. */
const isPhone = matchMedia("(max-width: 720px)").matches;

const el = making((name) => document.createElement(name));
const svg = making((name) => document.createElementNS("http://www.w3.org/2000/svg", name));

/** An untrusted name inside a sentence, with isolated text direction. */
const name = (text, properties = {}) => el("bdi", properties, text);

const STATUS = {
  PASS: ["pass", "✓", "pass"],
  FAIL: ["fail", "✗", "fail"],
  INCOMPLETE: ["warn", "?", "incomplete"],
  NOT_GATED: ["none", "", "not gated"],
};

function chip(kind, mark, ...words) {
  return el(
    "span",
    { class: `chip ${kind}` },
    mark && el("span", { "aria-hidden": "true" }, mark),
    el("span", {}, words),
  );
}

const ROWS_AT_ONCE = isPhone ? 5 : 25;

/** `columns`: title and class of each; `rows`: lists of cells. With the class `cards`, rows become cards on a phone.
 * Roles are explicit because browsers drop table semantics if the layout changes. `most`: rows shown at first. */
function table(columns, rows, properties, most = ROWS_AT_ONCE) {
  const body = el("tbody", { role: "rowgroup" });
  const more = fillInParts(
    body,
    rows.map((cells) => () => tableRow(columns, cells)),
    most,
    "row",
  );
  return [
    el(
      "div",
      { class: "scroll", role: "region", tabindex: "0", "aria-label": properties["aria-label"] },
      el(
        "table",
        { role: "table", ...properties },
        el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, columns.map(headCell))),
        body,
      ),
    ),
    more,
  ];
}

/** Add the first items to an element. Return a button that adds the others, if there are any. */
function fillInParts(element, makers, most, noun) {
  const isWhole = makers.length <= most + 1;
  const add = (some) => element.append(...some.map((make) => make()));
  add(isWhole ? makers : makers.slice(0, most));
  if (isWhole) return null;
  const showAll = () => {
    add(makers.slice(most));
    button.remove();
    const next = element.children[most];
    next.setAttribute("tabindex", "-1");
    next.focus({ preventScroll: true });
  };
  const button = el("button", { type: "button", class: "more", click: showAll }, `Show all ${counted(makers.length, noun)}`);
  return button;
}

/** An empty cell is no header. */
const headCell = ([title, kind]) =>
  title === "" ? el("td", { role: "cell", class: kind }) : el("th", { scope: "col", role: "columnheader", class: kind }, title);

function tableRow(columns, cells) {
  const [first, ...others] = cells;
  const cell = (content, index) => {
    const [title, kind] = columns[index + 1];
    return el("td", { role: "cell", class: kind, "data-title": title.textContent ?? title }, content);
  };
  const head = el("th", { role: "rowheader", scope: "row", class: columns[0][1] }, first);
  return el("tr", { role: "row" }, head, others.map(cell));
}

const LONGEST_AT_ONCE = 20000;

/** A text with its original line breaks. A very long one is collapsed at first. */
function prose(text, kind = "") {
  if (!text.trim()) return el("p", { class: "muted" }, "(empty)");
  const block = el("div", { class: `prose ${kind}`, dir: "auto" });
  if (text.length <= LONGEST_AT_ONCE) {
    block.append(text);
    return block;
  }
  const [first, ...others] = splitText(text).map((piece) => el("div", {}, piece));
  block.append(first);
  const showAll = () => {
    block.append(...others);
    button.remove();
  };
  const button = el(
    "button",
    { type: "button", click: showAll },
    `Show all ${formatCount([...text].length)} characters`,
  );
  return el("div", {}, block, button);
}

/** Split a text at ends of lines or words: a browser may need a minute to lay out a paragraph of a megabyte. */
function splitText(text) {
  const pieces = [];
  for (let at = 0; at < text.length;) {
    const piece = text.slice(at, at + LONGEST_AT_ONCE);
    const end = piece.lastIndexOf("\n") + 1 || piece.lastIndexOf(" ") + 1 || wholeCharacters(piece);
    pieces.push(at + piece.length < text.length ? piece.slice(0, end) : piece);
    at += pieces.at(-1).length;
  }
  return pieces;
}

/** The end of a piece that does not split a surrogate pair. */
const wholeCharacters = (piece) => piece.length - (/[\ud800-\udbff]$/.test(piece) ? 1 : 0);

/** Any data as text: on one line if it is short, otherwise indented. */
function dataText(value) {
  if (typeof value === "string") return value;
  const line = JSON.stringify(value);
  return line.length <= 80 ? line : JSON.stringify(value, null, 2);
}

function definitions(pairs) {
  return el(
    "dl",
    { class: "definitions" },
    pairs.map(([term, value]) => el("div", {}, el("dt", {}, name(term)), el("dd", {}, value))),
  );
}

const folded = (title, open, ...content) =>
  el("details", { open }, el("summary", {}, title), el("div", { class: "folded" }, content));

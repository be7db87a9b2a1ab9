// Render the parts of a view (reporters/view/parts.py): words, tables, lists, sections.

/** Class and meaning of each tone. */
const TONES = { pass: "pass", fail: "fail", warn: "incomplete", none: "not gated" };

/** Own words unchanged, untrusted text isolated, and sample ids as links. */
const wordsOf = (words = [], dataset = undefined) =>
  words.map((piece) => {
    if (typeof piece === "string") return piece;
    return piece.role === "sample" && dataset !== undefined ? sampleLink(dataset, piece.text) : name(piece.text);
  });

const lineOf = ({ words, items = [], more = 0 }, dataset = undefined) => [
  wordsOf(words, dataset),
  items.map((item, index) => [index ? ", " : ": ", wordsOf(item, dataset)]),
  more > 0 && ` and ${formatCount(more)} more`,
];

function cellContent({ words, tone = "", mark, details = [] }, dataset) {
  const said = wordsOf(words, dataset);
  const kind = { fail: "fail", none: "muted" }[tone];
  return [
    kind && said.length > 0 ? el("span", { class: kind }, said) : said,
    mark && [said.length > 0 && " ", chip(tone, mark, TONES[tone])],
    details.map((detail) => el("small", {}, wordsOf(detail, dataset))),
  ];
}

/** A part of the page under its own heading. On a phone it may be folded at first. */
function panel(id, title, about, isOpen, content) {
  const heading = el("h2", {}, title);
  if (!isPhone) return el("section", { id, class: "panel" }, heading, about, content);
  return el(
    "section",
    { id, class: "panel" },
    el("details", { class: "foldable", open: isOpen }, el("summary", {}, heading), el("div", { class: "folded" }, about, content)),
  );
}

/** `links`: address and text of each part of the page; null: there is no such part. */
function navigation(links) {
  return el(
    "nav",
    { "aria-label": "Parts of this page" },
    links.filter((link) => link).map(([href, text]) => el("a", { href }, name(text))),
    keysButton(),
  );
}

const NOTES_AT_ONCE = isPhone ? 3 : 10;

function renderNotes(notes) {
  const items = notes.map((line) => el("li", {}, lineOf(line)));
  const rest = items.slice(NOTES_AT_ONCE);
  return [
    el("ul", { class: "notes" }, items.slice(0, NOTES_AT_ONCE)),
    rest.length > 0 && folded(counted(rest.length, "further note"), false, el("ul", { class: "notes" }, rest)),
  ];
}

const ROWS_UNFOLDED = isPhone ? 0 : 12;

function renderSection(section, dataset) {
  const parts = renderParts(section, dataset);
  const title = wordsOf(section.title);
  const rows = Math.max(...section.parts.map((part) => (part.rows ?? part.entries ?? []).length));
  if (section.folded) return folded(title, rows <= ROWS_UNFOLDED, parts);
  return el("div", {}, el("h3", {}, title), parts);
}

const PARTS = { line: renderLine, table: renderTable, entries: renderEntries };

/** `what`: the subject of the parts, for screen readers. */
const renderParts = ({ parts = [], what }, dataset = undefined) =>
  parts.map((part, index) => {
    const label = dataset === undefined ? what : `${what} of ${dataset}`;
    return PARTS[part.type](part, index ? `${label} (${index + 1})` : label, dataset);
  });

function renderLine(line, label, dataset) {
  return el("p", { class: line.tone === "none" && "muted" }, lineOf(line, dataset));
}

/** A table with an additional chart column beside each column with values to draw. */
function renderTable(part, label, dataset) {
  const isDrawn = part.columns.map((column, place) => part.rows.some(({ cells }) => cells[place].plot));
  const columns = part.columns.flatMap((column, place) => [
    [typeof column.title === "object" ? name(column.title.text) : (column.title ?? ""), classOf(column, place)],
    ...(isDrawn[place] ? [["", "plotted"]] : []),
  ]);
  const rows = part.rows.map(({ cells, under }) =>
    cells.flatMap((cell, place) => {
      const content = cellContent(cell, dataset);
      const shown = under && !place ? el("span", { class: "under" }, content) : content;
      return [shown, ...(isDrawn[place] ? [cell.plot && intervalPlot(cell.plot, cell.tone ?? "")] : [])];
    }),
  );
  return table(columns, rows, { "aria-label": label, class: "cards" });
}

function classOf({ title, right, wrap }, place) {
  if (right) return "number";
  return [place > 0 && (wrap === "words" ? "wide" : "short"), place > 0 && title && "titled"].filter((kind) => kind).join(" ");
}

/** A row per entry, with a column per kind of line below it. Entries with other texts are shown one below the other. */
function renderEntries(part, label, dataset) {
  if (part.entries.some(({ lines = [] }) => lines.some(({ items }) => !items))) return renderAnswers(part, dataset);
  const kinds = [...new Set(part.entries.flatMap(({ lines = [] }) => lines.map(({ words }) => words.join(""))))];
  const columns = [[part.noun, ""], ["", kinds.length ? "state" : "wide"], ...kinds.map((kind) => [kind, "wide titled"])];
  const rows = part.entries.map((entry) => [
    wordsOf([entry.name], dataset),
    wordsOf(entry.said, dataset),
    ...kinds.map((kind) => itemList((entry.lines ?? []).find(({ words }) => words.join("") === kind), dataset)),
  ]);
  const properties = { "aria-label": part.title ?? label, class: "cards" };
  return el("div", {}, part.title && el("p", { class: "subheading" }, part.title), table(columns, rows, properties));
}

function itemList(line, dataset) {
  if (!line) return null;
  const items = line.items.map((item) => el("li", {}, wordsOf(item, dataset)));
  return el("ul", { class: "missed" }, items, line.more && el("li", {}, `and ${formatCount(line.more)} more`));
}

const hasAnswer = ({ words }) => words.some((piece) => piece.role === "answer");
const ENTRIES_AT_ONCE = isPhone ? 3 : 10;

/** Entries with the answers of both sides beside each other. */
function renderAnswers(part, dataset) {
  const list = el("ol", { class: "entries" });
  const makers = part.entries.map((entry) => () => renderEntry(entry, dataset));
  return [list, fillInParts(list, makers, ENTRIES_AT_ONCE, part.noun)];
}

function renderEntry({ name: id, said, tone = "", lines = [] }, dataset) {
  const answers = lines.filter(hasAnswer);
  return el(
    "li",
    { class: tone, tabindex: "-1", "data-row": true },
    el("p", {}, el("strong", {}, wordsOf([id], dataset)), " ", wordsOf(said, dataset)),
    lines.filter((line) => !hasAnswer(line)).map((line) => el("p", { class: "muted" }, lineOf(line, dataset))),
    answers.length > 0 && el("div", { class: "beside" }, answers.map(renderAnswer)),
  );
}

function renderAnswer({ words }) {
  const title = words.filter((piece) => typeof piece === "string").join("");
  const text = words.map((piece) => piece.text ?? "").join("");
  return el("div", { class: "block" }, el("p", { class: "subheading" }, title.replace(/: $/, "")), prose(text));
}

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

const ROWS_UNFOLDED = 12;

function renderSection(section, dataset) {
  const parts = renderParts(section, dataset);
  const title = wordsOf(section.title);
  const rows = Math.max(...section.parts.map((part) => (part.rows ?? part.entries ?? []).length));
  if (section.folded) return folded(title, rows <= ROWS_UNFOLDED, parts);
  return el("div", {}, el("h4", {}, title), parts);
}

const PARTS = { line: renderLine, table: renderTable, entries: renderEntries };

/** `what`: the subject of the parts, for screen readers. */
const renderParts = ({ parts = [], what }, dataset = undefined) =>
  parts.map((part) => PARTS[part.type](part, dataset === undefined ? what : `${what} of ${dataset}`, dataset));

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

/** A row per entry, with a column per kind of line below it. */
function renderEntries(part, label, dataset) {
  const kinds = [...new Set(part.entries.flatMap(({ lines = [] }) => lines.map(({ words }) => words.join(""))))];
  const columns = [[part.noun, ""], ["", kinds.length ? "state" : "wide"], ...kinds.map((kind) => [kind, "wide titled"])];
  const rows = part.entries.map((entry) => [
    wordsOf([entry.name], dataset),
    wordsOf(entry.said, dataset),
    ...kinds.map((kind) => itemList((entry.lines ?? []).find(({ words }) => words.join("") === kind), dataset)),
  ]);
  const properties = { "aria-label": part.title ?? label, class: "cards" };
  return el("div", {}, part.title && el("h4", {}, part.title), table(columns, rows, properties));
}

function itemList(line, dataset) {
  if (!line) return null;
  const items = line.items.map((item) => el("li", {}, wordsOf(item, dataset)));
  return el("ul", { class: "missed" }, items, line.more && el("li", {}, `and ${formatCount(line.more)} more`));
}

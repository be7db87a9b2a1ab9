// What a retriever was asked and answered: what reranking gained, how long the stages took, what is missing and why.

const renderAsked = ({ asked }) => asked && el("p", { class: "muted" }, "asked of ", name(asked));

const renderRerankings = (dataset) => numberTable("Before and after reranking", dataset.retrieval.rerankings, dataset);

const renderStages = (dataset) => numberTable("Latency of the stages", dataset.retrieval.stages, dataset);

/** The first column is of names, all others are of numbers. */
function numberTable(title, { titles, rows }, dataset) {
  if (!rows.length) return null;
  const [first, ...others] = titles;
  const columns = [[first, ""], ...others.map((other) => [other, "number"])];
  const cells = rows.map(([text, ...numbers]) => [name(text), ...numbers]);
  const properties = { "aria-label": `${title}: ${dataset.name}`, class: "cards" };
  return el("div", {}, el("h4", {}, title), table(columns, cells, properties));
}

const QUERIES_UNFOLDED = 12;

function renderMissing(dataset) {
  const { missing } = dataset.retrieval;
  if (!missing) return null;
  const { items, more } = missing.queries;
  const columns = [
    ["query", ""],
    ["", "state"],
    ["missing", "wide titled"],
    ["pushed out by", "wide titled"],
  ];
  const rows = items.map((query) => [
    sampleLink(dataset.name, query.id),
    query.found,
    documentList(query.missing),
    documentList(query.pushedOutBy),
  ]);
  return folded(
    "What is missing",
    items.length <= QUERIES_UNFOLDED,
    el("p", {}, missing.whole),
    missing.unanswered && el("p", {}, name(missing.unanswered)),
    table(columns, rows, { "aria-label": `What is missing in ${dataset.name}`, class: "cards" }),
    moreLine(more),
    [missing.never, missing.always].map(renderFailing),
  );
}

function renderFailing({ title, items, more }) {
  if (!items.length) return null;
  const columns = [
    ["document", ""],
    ["", "wide"],
  ];
  const rows = items.map(([id, words]) => [name(id), words]);
  return el("div", {}, el("h4", {}, title), table(columns, rows, { "aria-label": title, class: "cards" }), moreLine(more));
}

function documentList({ items, more }) {
  if (!items.length) return null;
  const lines = items.map(([before, id, after]) => el("li", {}, before && `${before} `, name(id), ` ${after}`));
  return el("ul", { class: "missed" }, lines, more > 0 && el("li", {}, moreLine(more)));
}

const moreLine = (more) => more > 0 && el("p", { class: "muted" }, `and ${formatCount(more)} more`);

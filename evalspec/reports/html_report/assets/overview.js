// The upper part of the page: the verdict and its reasons.

function renderHeader() {
  const [kind, mark, word] = STATUS[overview.verdict];
  const about = [
    overview.startedAt && el("span", {}, formatTime(overview.startedAt)),
    name(overview.id),
    el(
      "span",
      {},
      counted(
        overview.datasets.reduce((sum, dataset) => sum + dataset.samples, 0),
        "sample",
      ),
    ),
    el("span", {}, `exit code ${overview.exitCode}`),
  ];
  return el(
    "header",
    { class: `headline ${kind}` },
    el("p", { class: "verdict" }, mark && el("span", { "aria-hidden": "true" }, `${mark} `), word.toUpperCase()),
    el("h1", {}, name(overview.agent ?? "evalspec")),
    el("p", { class: "about" }, about),
    overview.reasons && reasonList(overview.reasons),
    remarks().map((remark) => el("p", { class: "remark" }, remark)),
  );
}

const REASONS_AT_ONCE = isPhone ? 4 : 8;
const LINKED_AT_ONCE = 3;

function reasonList(reasons) {
  const items = reasons.map((reason, index) =>
    el("li", { dir: "auto" }, wordsOf(reason), renderConcerned(overview.concerned[index], index)),
  );
  const rest = items.slice(REASONS_AT_ONCE);
  return [
    el("ul", { class: "reasons" }, items.slice(0, REASONS_AT_ONCE)),
    rest.length > 0 && folded(`${counted(rest.length, "further reason")}`, false, el("ul", { class: "reasons" }, rest)),
  ];
}

/** Links to what a reason is about: a few samples, a table of many, or the comparison with the baseline. */
function renderConcerned(concerned, index) {
  if (!concerned) return null;
  if (concerned.part) return el("span", { class: "concerned" }, el("a", { href: `#${concerned.part}` }, "comparison"));
  const { name: dataset } = overview.datasets[concerned.dataset];
  const isShort = concerned.complete && concerned.count <= LINKED_AT_ONCE;
  const ids = isShort ? concerned.first : concerned.first.slice(0, 1);
  const all = `${concerned.complete ? "all" : "first"} ${counted(concerned.count, "sample")}`;
  return el(
    "span",
    { class: "concerned" },
    ids.map((id) => sampleLink(dataset, id)),
    !isShort && el("a", { href: `#reason=${index}` }, all),
  );
}

/** Notes that apply to the whole page. */
function remarks() {
  const { cut } = overview;
  return [
    ...(overview.lead ?? []).map((line) => lineOf(line)),
    overview.partial && [el("strong", {}, "Partial. "), "Some declared samples or metrics were deselected and not measured."],
    !overview.hasTexts && [
      el("strong", {}, "Without texts. "),
      "Questions, answers, contexts and reasons were withheld from this report (--no-content).",
    ],
    cut && [
      el("strong", {}, "Texts are truncated. "),
      `${counted(cut.texts, "text")} of more than ${formatCount(cut.longest)} characters, to keep this page fast. ` +
        "The run folder has the complete texts.",
    ],
  ].filter((remark) => remark);
}

const formatTime = (time) => time.replace("T", " ").replace(/(\+00:00|Z)$/, " UTC");

function renderDataset(dataset, index) {
  const section = sectionsOf("dataset")[index];
  const charts = dataset.charts.filter(({ histogram }) => histogram).map(distributionChart);
  if (dataset.latencies) charts.push(latencyChart(dataset.latencies));
  const inner = section.sections ?? [];
  const rendered = (folding) => inner.filter(({ folded: folds = false }) => folds === folding);
  const about = el(
    "p",
    { class: "about" },
    section.about.map((cell) => el("span", {}, cellContent(cell))),
    dataset.file && name(dataset.file),
  );
  const outcome = isPhone && dataset.status && chip(...STATUS[dataset.status]);
  return panel(`dataset-${index}`, [name(dataset.name), outcome], about, isOpenAtFirst(index), [
    renderParts(section, dataset.name),
    rendered(false).map((one) => renderSection(one, dataset.name)),
    charts.length > 0 && folded("Distributions", !isPhone, el("div", { class: "charts" }, charts)),
    rendered(true).map((one) => renderSection(one, dataset.name)),
  ]);
}

/** On a phone, only the first dataset with something wrong is open. */
function isOpenAtFirst(index) {
  const broken = overview.datasets.findIndex(({ status }) => status === "FAIL" || status === "INCOMPLETE");
  return !isPhone || index === Math.max(broken, 0);
}

/** A gold set: the agreement of its reviewers, and what it lacks. */
function renderGold(section, index) {
  const about = el(
    "p",
    { class: "about" },
    section.about.map((cell) => el("span", {}, cellContent(cell))),
  );
  return panel(`gold-${index}`, wordsOf(section.title), about, !isPhone, [
    section.sections.map((one) => renderSection(one)),
  ]);
}

const sectionsOf = (kind) => (overview.sections ?? []).filter(({ key }) => key === kind);

function renderBaseline() {
  const [section] = sectionsOf("baseline");
  if (!section) return null;
  return panel("baseline", section.title, null, true, renderParts({ ...section, parts: section.parts.map(worstFirst) }));
}

/** A table with broken rows first, then undecided ones. */
function worstFirst(part) {
  const gravity = ({ cells }) => Math.min(...cells.map(({ mark, tone }) => (mark ? GRAVITY.indexOf(tone) + 1 || 3 : 3)));
  return part.rows ? { ...part, rows: [...part.rows].sort((one, other) => gravity(one) - gravity(other)) } : part;
}

const GRAVITY = ["fail", "warn"];

function renderRun() {
  const facts = flatten(overview.fingerprint);
  return el(
    "section",
    { id: "run", class: "panel" },
    el("h2", {}, "Run"),
    renderNotes(overview.notes),
    overview.usages.length > 1 && folded("Judge by metric", false, definitions(overview.usages)),
    facts.length > 0 && folded("Run metadata", false, definitions(facts)),
  );
}

/** Flatten nested data to names like `judge.model` and their values. */
function flatten(value, path = "") {
  const nested = value !== null && typeof value === "object" && Object.keys(value).length > 0;
  if (!nested) return [[path, value === null ? UNKNOWN : dataText(value)]];
  return Object.entries(value).flatMap(([key, item]) => {
    const step = Array.isArray(value) ? `[${key}]` : path ? `.${key}` : key;
    return flatten(item, path + step);
  });
}

function renderNavigation() {
  return navigation([
    sectionsOf("baseline").length > 0 && ["#baseline", "Baseline"],
    ...overview.datasets.map((dataset, index) => [`#dataset-${index}`, dataset.name]),
    ...sectionsOf("gold").map((section, index) => [`#gold-${index}`, section.title.map((piece) => piece.text ?? piece).join("")]),
    ["#samples", "Samples"],
    ["#run", "Run"],
  ]);
}

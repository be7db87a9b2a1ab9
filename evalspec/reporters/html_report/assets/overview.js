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

const REASONS_AT_ONCE = 8;

function reasonList(reasons) {
  const items = reasons.map((reason) => el("li", { dir: "auto" }, wordsOf(reason)));
  const rest = items.slice(REASONS_AT_ONCE);
  return [
    el("ul", { class: "reasons" }, items.slice(0, REASONS_AT_ONCE)),
    rest.length > 0 && folded(`${counted(rest.length, "further reason")}`, false, el("ul", { class: "reasons" }, rest)),
  ];
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
  return el(
    "section",
    { id: `dataset-${index}`, class: "panel" },
    el("h2", {}, name(dataset.name)),
    el(
      "p",
      { class: "about" },
      section.about.map((cell) => el("span", {}, cellContent(cell))),
      dataset.file && name(dataset.file),
    ),
    renderParts(section, dataset.name),
    rendered(false).map((one) => renderSection(one, dataset.name)),
    charts.length > 0 && folded("Distributions", true, el("div", { class: "charts" }, charts)),
    rendered(true).map((one) => renderSection(one, dataset.name)),
  );
}

/** A gold set: the agreement of its reviewers, and what it lacks. */
function renderGold(section, index) {
  return el(
    "section",
    { id: `gold-${index}`, class: "panel" },
    el("h2", {}, wordsOf(section.title)),
    el(
      "p",
      { class: "about" },
      section.about.map((cell) => el("span", {}, cellContent(cell))),
    ),
    section.sections.map((one) => renderSection(one)),
  );
}

const sectionsOf = (kind) => (overview.sections ?? []).filter(({ key }) => key === kind);

function renderBaseline() {
  const [section] = sectionsOf("baseline");
  if (!section) return null;
  return el("section", { id: "baseline", class: "panel" }, el("h2", {}, section.title), renderParts(section));
}

function renderRun() {
  const facts = flatten(overview.fingerprint);
  return el(
    "section",
    { id: "run", class: "panel" },
    el("h2", {}, "Run"),
    el(
      "ul",
      { class: "notes" },
      overview.notes.map((line) => el("li", {}, lineOf(line))),
    ),
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
  const links = [
    sectionsOf("baseline").length > 0 && ["#baseline", "Baseline"],
    ...overview.datasets.map((dataset, index) => [`#dataset-${index}`, dataset.name]),
    ...sectionsOf("gold").map((section, index) => [`#gold-${index}`, section.title.map((piece) => piece.text ?? piece).join("")]),
    ["#samples", "Samples"],
    ["#run", "Run"],
  ].filter((link) => link);
  return el(
    "nav",
    { "aria-label": "Parts of this page" },
    links.map(([href, text]) => el("a", { href }, name(text))),
  );
}

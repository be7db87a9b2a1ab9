// The upper part of the page: what the run says, and why.

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
    overview.reasons.length > 0 && reasonList(overview.reasons),
    remarks().map((remark) => el("p", { class: "remark" }, remark)),
  );
}

const REASONS_AT_ONCE = 8;

function reasonList(reasons) {
  const items = reasons.map((reason) => el("li", { dir: "auto" }, reason));
  const rest = items.slice(REASONS_AT_ONCE);
  return [
    el("ul", { class: "reasons" }, items.slice(0, REASONS_AT_ONCE)),
    rest.length > 0 && folded(`${counted(rest.length, "further reason")}`, false, el("ul", { class: "reasons" }, rest)),
  ];
}

/** What a reader must know of the whole page. */
function remarks() {
  const { cut } = overview;
  return [
    overview.reuse && [el("strong", {}, "Another agent. "), name(overview.reuse)],
    overview.partial && [el("strong", {}, "Partial. "), "Something that was declared was deliberately not measured."],
    !overview.hasTexts && [
      el("strong", {}, "Without texts. "),
      "Questions, answers, contexts and reasons were withheld from this report (--no-content).",
    ],
    cut && [
      el("strong", {}, "Texts are cut. "),
      `${counted(cut.texts, "text")} of more than ${formatCount(cut.longest)} characters, so that this page opens ` +
        "quickly. They are whole in the run folder.",
    ],
  ].filter((remark) => remark);
}

const formatTime = (time) => time.replace("T", " ").replace(/(\+00:00|Z)$/, " UTC");

function renderRegressions() {
  if (!overview.regressions.length) return null;
  const columns = [
    ["metric", ""],
    ["baseline", "number"],
    ["candidate", "number"],
    ["delta", "number"],
    ["pairs", "number"],
    ["status", "state"],
    ["why", "wide"],
  ];
  const several = overview.datasets.length > 1;
  const rows = overview.regressions.map((found) => [
    [
      found.metric ? name(found.metric) : found.ofBaseline ? "baseline" : "newly failing samples",
      several && found.dataset && el("small", {}, name(found.dataset)),
    ],
    found.baseline,
    found.candidate,
    found.delta,
    found.pairs,
    statusChip(found.status),
    found.reason && [`${found.mark} `, name(found.reason)],
  ]);
  return el(
    "section",
    { id: "baseline", class: "panel" },
    el("h2", {}, "Against the baseline"),
    table(columns, rows, { "aria-label": "Comparison with the baseline", class: "cards" }),
  );
}

function renderDataset(dataset, index) {
  const unanswered = dataset.samples - dataset.answered;
  const charts = dataset.charts.filter(({ histogram }) => histogram).map(distributionChart);
  if (dataset.latencies) charts.push(latencyChart(dataset.latencies));
  return el(
    "section",
    { id: `dataset-${index}`, class: "panel" },
    el("h2", {}, name(dataset.name)),
    el(
      "p",
      { class: "about" },
      el("span", {}, counted(dataset.samples, "sample")),
      unanswered > 0 && el("span", { class: "fail" }, `${formatCount(unanswered)} without a usable reply`),
      dataset.file && name(dataset.file),
    ),
    renderAsked(dataset.retrieval),
    dataset.rows.length > 0 && renderMetrics(dataset),
    renderRerankings(dataset),
    renderStages(dataset),
    charts.length > 0 && folded("Distributions", true, el("div", { class: "charts" }, charts)),
    dataset.slices.length > 0 && renderSlices(dataset),
    dataset.repeats && renderRepeats(dataset),
    renderMissing(dataset),
  );
}

function renderMetrics(dataset) {
  const columns = [
    ["metric", ""],
    ["value", "number"],
    ["", "plotted"],
    ["95 % interval", "number"],
    ["limit", "number"],
    ["status", "state"],
    ["scored", "number"],
    ["", "wide"],
  ];
  const rows = dataset.rows.map((row) => [
    metricName(row),
    row.unknown ? [UNKNOWN, el("small", {}, row.unknown)] : el("strong", {}, row.value),
    intervalPlot(row),
    row.interval,
    row.limit,
    row.status ? statusChip(row.status) : el("span", { class: "muted" }, "no limit"),
    row.scored,
    [row.gaps, ...row.reasons].filter((note) => note).map((note) => el("small", {}, name(note))),
  ]);
  return table(columns, rows, { "aria-label": `Metrics of ${dataset.name}`, class: "cards" });
}

function metricName(row) {
  if (row.under) return el("span", { class: "under" }, name(row.name));
  const hints = [row.statistic !== "mean" && row.statistic, row.lowerIsBetter && "lower is better"];
  const told = hints.filter((hint) => hint).join(", ");
  return [name(row.name), told && el("small", {}, told)];
}

function renderSlices(dataset) {
  const columns = [
    ["slice", ""],
    ["n", "number"],
    ...dataset.sliceMetrics.map((metric) => [name(metric), "number"]),
    ["", ""],
  ];
  const rows = dataset.slices.map((slice) => [
    name(slice.name),
    formatCount(slice.n),
    ...slice.cells.map(([value, interval, gaps]) => [value, el("small", {}, interval ?? gaps)]),
    slice.small && el("span", { class: "chip none" }, "too few to rank"),
  ]);
  return folded(
    `Slices (${formatCount(dataset.slices.length)}), worst first`,
    dataset.slices.length <= 12,
    table(columns, rows, { "aria-label": `Slices of ${dataset.name}`, class: "cards" }),
  );
}

const FLAKY_SHOWN = 100;

function renderRepeats(dataset) {
  const { repeats, decided, passes, variance, flaky } = dataset.repeats;
  const passColumns = [
    ["k", "number"],
    ["pass@k", "number"],
    ["pass^k", "number"],
  ];
  const spreadColumns = [
    ["metric", ""],
    ["replies", "number"],
    ["agent", "number"],
    ["judge", "number"],
  ];
  const spread = variance.map(([metric, ...parts]) => [name(metric), ...parts]);
  const links = flaky.slice(0, FLAKY_SHOWN).map((id) => el("li", {}, sampleLink(dataset.name, id)));
  if (flaky.length > FLAKY_SHOWN) links.push(el("li", {}, `and ${formatCount(flaky.length - FLAKY_SHOWN)} more`));
  return folded(
    `Repeats (${formatCount(flaky.length)} flaky)`,
    true,
    el(
      "p",
      {},
      `Each sample was asked ${counted(repeats, "time")}. Whether it passes is known of ${counted(decided, "sample")}.`,
    ),
    el(
      "div",
      { class: "beside" },
      passes.length > 0 &&
        el(
          "div",
          {},
          el("h4", {}, "At least one of k passes, all of k pass"),
          table(
            passColumns,
            passes.map(([k, ...shares]) => [String(k), ...shares]),
            { "aria-label": "Pass rates", class: "tight" },
          ),
        ),
      spread.length > 0 &&
        el("div", {}, el("h4", {}, "Variance"), table(spreadColumns, spread, { "aria-label": "Variance" })),
    ),
    links.length > 0 && [el("h4", {}, "Sometimes passing, sometimes not"), el("ul", { class: "inline" }, links)],
  );
}

function renderRun() {
  const facts = flatten(overview.fingerprint);
  return el(
    "section",
    { id: "run", class: "panel" },
    el("h2", {}, "Run"),
    overview.notes.length > 0 &&
      el(
        "ul",
        { class: "notes" },
        overview.notes.map((note) => el("li", {}, name(note))),
      ),
    overview.usage && el("p", {}, overview.usage),
    overview.usages.length > 1 && folded("Judge by metric", false, definitions(overview.usages)),
    facts.length > 0 && folded("What was run", false, definitions(facts)),
  );
}

/** Nested data as `judge.model` and its value. */
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
    overview.regressions.length > 0 && ["#baseline", "Baseline"],
    ...overview.datasets.map((dataset, index) => [`#dataset-${index}`, dataset.name]),
    ["#samples", "Samples"],
    ["#run", "Run"],
  ].filter((link) => link);
  return el(
    "nav",
    { "aria-label": "Parts of this page" },
    links.map(([href, text]) => el("a", { href }, name(text))),
  );
}

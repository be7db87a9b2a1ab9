// A sample with all its data.

const SCORE_WORDS = new Map([
  ["n", ["none", "", "not applicable"]],
  ["k", ["none", "", "skipped"]],
  ["f", ["warn", "?", "failed"]],
  ["-", ["none", "", "not requested"]],
]);
const STATES = new Map([
  ["f", ["warn", "?", "failed"]],
  ["b", ["fail", "✗", "beyond limit"]],
  ["y", ["warn", "~", "flaky"]],
  ["p", ["pass", "✓", "passed"]],
]);
const UNDECIDED = ["none", "", "not decided"];

/** The most severe state of a sample. */
const stateChip = (states) => chip(...(STATES.get(states[0]) ?? UNDECIDED));

function sampleHash(dataset, id) {
  const several = overview.datasets.length > 1 ? `dataset=${encodeURIComponent(dataset)}&` : "";
  return `#${several}sample=${encodeURIComponent(id)}`;
}

const sampleLink = (dataset, id) => el("a", { href: sampleHash(dataset, id) }, name(id));

/** `asked`: question and answers; `rest`: everything else, as written by reporters/html_report/texts.py. */
function renderSample(dataset, number, [question, answers], rest) {
  const { attempts } = rest;
  const place = el("div", {});
  const show = (index) => place.replaceChildren(...present(renderAsking(dataset, answers[index], rest, index)));
  show(0);
  return [
    rest.error && prose(rest.error, "error"),
    block("Question", renderQuestion(question)),
    attempts.length > 1 && renderAttempts(dataset, number, rest, show),
    place,
    renderReferencePassages(rest),
    renderFacts(rest),
  ];
}

const block = (title, ...content) => el("section", { class: "block" }, el("h3", {}, title), content);

function notKept() {
  return el("p", { class: "muted" }, overview.hasTexts ? "not kept" : "withheld (--no-content)");
}

function renderQuestion(question) {
  if (question === null) return notKept();
  if (!Array.isArray(question)) return prose(question);
  const turns = question.map(([role, content]) =>
    el("li", { class: role === "user" ? "user" : "" }, el("span", { class: "role" }, name(role)), prose(content)),
  );
  return el("ol", { class: "conversation" }, turns);
}

/** All attempts side by side, with a mark on the one shown below. */
function renderAttempts(dataset, number, { attempts, reasons }, show) {
  const choose = (attempt, index) =>
    el(
      "label",
      { class: "choice" },
      el("input", { type: "radio", name: "attempt", checked: index === 0, change: () => show(index) }),
      ` ${index + 1}`,
    );
  const columns = [
    ["attempt", ""],
    ["status", ""],
    ...dataset.metrics.map((metric) => [name(metric), "number"]),
    ["latency", "number"],
  ];
  const rows = attempts.map((attempt, index) => [
    choose(attempt, index),
    attempt.status === "failed" ? chip("warn", "?", "no usable reply") : passedChip(attempt.passed),
    ...dataset.metrics.map((metric, which) => scoreText(dataset, which, attempt.scores[which])),
    formatValue("latency", attempt.latency),
  ]);
  const together = dataset.metrics.map((metric, which) => {
    const value = dataset.values[which][number];
    const words = value === null ? wordOf(dataset.statuses[which][number]) : formatValue(metric, value);
    return el("span", { title: reasons[which] }, words);
  });
  rows.push([
    "together",
    stateChip(dataset.states[number]),
    ...together,
    formatValue("latency", dataset.latency[number]),
  ]);
  const properties = { "aria-label": "Attempts", class: "tight" };
  return block(`${attempts.length} attempts`, table(columns, rows, properties, rows.length));
}

const wordOf = (code) => `${UNKNOWN} ${SCORE_WORDS.get(code)[2]}`;

function passedChip(passed) {
  if (passed === null) return chip(...UNDECIDED);
  return passed ? chip(...STATES.get("p")) : chip(...STATES.get("b"));
}

function scoreText(dataset, which, score) {
  const [code, value, , , , beyond] = score ?? NO_SCORE;
  if (value === null) return wordOf(code);
  const said = formatValue(dataset.metrics[which], value, beyond ? dataset.limits[which] : {});
  return beyond ? el("span", { class: "fail" }, said) : said;
}

function renderAsking(dataset, answer, rest, index) {
  const attempt = rest.attempts[index];
  const several = rest.attempts.length > 1;
  const reply =
    attempt.error !== null && answer === null
      ? prose(attempt.error, "error")
      : answer !== null
        ? prose(answer)
        : rest.references === null
          ? notKept()
          : el("p", { class: "muted" }, "none: a retriever returns documents");
  return [
    el(
      "div",
      { class: "beside" },
      block(several ? `Answer of attempt ${index + 1}` : "Answer", reply),
      renderReferences(rest.references),
    ),
    block("Scores", renderScores(dataset, attempt.scores)),
    renderContexts(attempt, rest),
    attempt.toolCalls && block("Tool calls", prose(JSON.stringify(attempt.toolCalls, null, 2), "data")),
    attempt.finishReason && el("p", { class: "muted" }, "finish reason: ", name(attempt.finishReason)),
    attempt.usage &&
      el("p", { class: "muted" }, `${formatCount(attempt.usage[0])} tokens in, ${formatCount(attempt.usage[1])} out`),
  ];
}

function renderReferences(references) {
  if (references === null) return block("Reference", notKept());
  if (!references.length) return block("Reference", el("p", { class: "muted" }, "none given"));
  return block(
    references.length > 1 ? "References" : "Reference",
    references.map((text) => prose(text)),
  );
}

const NO_SCORE = ["-", null, null, null, [], false];

function renderScores(dataset, scores) {
  const ranked = dataset.metrics.map((metric, which) => {
    const score = scores[which] ?? NO_SCORE;
    return { rank: rankOf(score, dataset.limits[which]), item: () => renderScore(metric, score, dataset.limits[which]) };
  });
  const listed = (...ranks) =>
    ranks.flatMap((rank) => ranked.filter((one) => one.rank === rank)).map(({ item }) => item());
  const told = listed("beyond", "failed", "unlimited");
  const met = listed("met");
  if (!told.length) return el("ul", { class: "scores" }, met);
  return [
    el("ul", { class: "scores" }, told),
    met.length > 0 && folded(`${counted(met.length, "score")} within the limit`, false, el("ul", { class: "scores" }, met)),
  ];
}

/** Scores beyond their limit come first, and those within it last. */
function rankOf([code, value, , , , beyond], { min = null, max = null }) {
  if (beyond) return "beyond";
  if (code === "f") return "failed";
  return value !== null && (min !== null || max !== null) ? "met" : "unlimited";
}

function renderScore(metric, [code, value, reason, evidence, repeats, beyond], limit) {
  const evidenceParts = renderEvidence(metric, evidence);
  const judged = repeats.length > 1 && `graded ${repeats.map((one) => formatValue(metric, one)).join(", ")}`;
  const limited = limit.words && `limit ${limit.words}`;
  return el(
    "li",
    {},
    el(
      "div",
      { class: "score" },
      el("strong", {}, name(metric)),
      el("span", { class: `number${beyond ? " fail" : ""}` }, formatValue(metric, value, beyond ? limit : {})),
      value === null ? chip(...SCORE_WORDS.get(code)) : beyond && chip(...STATES.get("b")),
      el("span", { class: "muted" }, [limited, judged].filter((part) => part).join(" · ")),
    ),
    reason && prose(reason, "reason"),
    evidenceParts.length > 0 && folded("Evidence", isVerdictful(evidence), evidenceParts),
  );
}

const isVerdictful = (evidence) => Object.values(evidence).some((part) => isVerdictList(part) && part.length > 0);

/** Retrieved documents, best first, with grades if the dataset has them, and missing documents. */
function renderContexts({ contexts, contextsOfReply, ids }, { qrels, groups, referenceContexts }) {
  if (contexts === null && ids === null) return null;
  const grades = qrels && new Map(qrels);
  const paired = contextsOfReply && contexts !== null && ids !== null && ids.length === contexts.length;
  const golden = new Set(referenceContexts ?? []);
  const item = (id, text) =>
    el(
      "li",
      {},
      el(
        "div",
        { class: "score" },
        id !== null && name(id, { class: "identifier" }),
        id !== null && grades && gradeChip(grades.get(id)),
        text !== null && golden.has(text) && chip("pass", "✓", "a reference passage"),
      ),
      text !== null && prose(text, "passage"),
    );
  const list = (title, items) =>
    block(title, items.length ? el("ol", { class: "contexts" }, items) : el("p", { class: "muted" }, "none"));
  const parts = paired
    ? [
        list(
          `Retrieved contexts (${ids.length})`,
          ids.map((id, rank) => item(id, contexts[rank])),
        ),
      ]
    : [
        contexts !== null &&
          list(
            `${contextsOfReply ? "Retrieved contexts" : "Contexts of the dataset"} (${contexts.length})`,
            contexts.map((text) => item(null, text)),
          ),
        ids !== null &&
          list(
            `Retrieved documents (${ids.length})`,
            ids.map((id) => item(id, null)),
          ),
      ];
  return [parts, ids !== null && renderMissed(ids, qrels, groups)];
}

function gradeChip(grade) {
  if (grade === undefined) return chip("none", "", "unjudged");
  return grade > 0 ? chip("pass", "✓", `relevant, grade ${grade}`) : chip("fail", "✗", "judged not relevant");
}

function renderMissed(ids, qrels, groups) {
  const found = new Set(ids);
  const missed = groups
    ? groups.filter((group) => !group.some((id) => found.has(id))).map((group) => [group.join(" or "), null])
    : (qrels ?? []).filter(([id, grade]) => grade > 0 && !found.has(id)).sort((one, other) => other[1] - one[1]);
  if (!missed.length) return null;
  const items = missed.map(([id, grade]) =>
    el(
      "li",
      {},
      name(id, { class: "identifier" }),
      grade !== null && el("span", { class: "muted" }, ` grade ${grade}`),
    ),
  );
  return block("Relevant, not retrieved", el("ul", { class: "missed" }, items));
}

function renderReferencePassages({ referenceContexts }) {
  if (!referenceContexts?.length) return null;
  const items = referenceContexts.map((text) => el("li", {}, prose(text, "passage")));
  return folded(`Reference passages (${referenceContexts.length})`, false, el("ol", { class: "contexts" }, items));
}

function renderFacts({ metadata }) {
  const facts = Object.entries(metadata).map(([key, value]) => [key, prose(dataText(value), "data")]);
  return facts.length > 0 && block("Metadata", definitions(facts));
}

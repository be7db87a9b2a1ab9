// The evidence of a score: the judge's verdicts on single statements, or other data of the metric.

/** Meaning of the verdicts 1 and 0, by metric; `yes` and `no` for unknown metrics. */
const VERDICTS = new Map([
  ["faithfulness", ["supported", "not supported"]],
  ["hallucination", ["supported", "not supported"]],
  ["context_recall", ["in the contexts", "not in the contexts"]],
  ["context_precision", ["useful", "not useful"]],
  ["noise_sensitivity", ["right", "wrong"]],
  ["factual_correctness", ["found on the other side", "not found on the other side"]],
]);
const YES_NO = ["yes", "no"];
/** Verdicts that are words, of claim_entailment. */
const WORDS = new Map([
  ["entailed", ["pass", "✓"]],
  ["contradicted", ["fail", "✗"]],
  ["missing", ["warn", "–"]],
]);
const TITLES = new Map([
  ["statements", ""],
  ["claims", "Claims of the expected answer"],
  ["contexts", "Contexts, in order"],
  ["questions", "Questions that the response answers"],
  ["TP", "Right"],
  ["FP", "Wrong, or not in the reference"],
  ["FN", "Missing in the answer"],
  ["response", "Claims of the answer"],
  ["reference", "Claims of the reference"],
]);
const TEXT_KEYS = ["statement", "question", "claim", "text"];
const VERDICT_KEYS = ["verdict", "attributed"];

function renderEvidence(metric, evidence) {
  if (evidence === null || evidence === undefined) return [];
  if (typeof evidence !== "object" || Array.isArray(evidence)) return [renderPart(metric, "", evidence)];
  const parts = Object.entries(evidence);
  const lists = parts.filter(([, value]) => isVerdictList(value) && value.length);
  const facts = parts.filter(([, value]) => !isVerdictList(value));
  return [
    ...lists.map(([key, value]) => renderPart(metric, key, value)),
    facts.length > 0 && definitions(facts.map(([key, value]) => [key, prose(dataText(value), "data")])),
  ];
}

const isVerdictList = (value) =>
  Array.isArray(value) && value.every((item) => item !== null && typeof item === "object" && !Array.isArray(item));

function renderPart(metric, key, value) {
  if (!isVerdictList(value)) return prose(dataText(value), "data");
  const title = TITLES.get(key) ?? key;
  const items = value.map((item) => renderVerdict(metric, item));
  return [title && el("h4", {}, name(title)), el("ol", { class: "verdicts" }, items)];
}

function renderVerdict(metric, item) {
  const textKey = TEXT_KEYS.find((key) => typeof item[key] === "string");
  const verdictKey = VERDICT_KEYS.find((key) => Object.hasOwn(item, key));
  const rest = Object.entries(item).filter(([key]) => ![textKey, verdictKey, "reason"].includes(key));
  return el(
    "li",
    {},
    verdictKey && verdictChip(metric, item[verdictKey]),
    textKey && prose(item[textKey]),
    item.reason && prose(dataText(item.reason), "muted"),
    rest.map(([key, value]) => prose(`${key}: ${dataText(value)}`, "muted")),
  );
}

function verdictChip(metric, verdict) {
  if (WORDS.has(verdict)) return chip(...WORDS.get(verdict), verdict);
  const [yes, no] = VERDICTS.get(metric) ?? YES_NO;
  return verdict ? chip("pass", "✓", yes) : chip("fail", "✗", no);
}

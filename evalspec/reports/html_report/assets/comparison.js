// The page of a comparison: its outcome, and a part for each dataset.

/** A comparison has no page of a sample. */
const sampleLink = (dataset, id) => name(id);

const titleOf = (section) => section.title.map((piece) => piece.text ?? piece).join("");

function renderHeader() {
  const [outcome, ...others] = overview.headline;
  return el(
    "header",
    { class: `headline ${outcome?.tone || "none"}` },
    outcome &&
      el(
        "p",
        { class: "verdict" },
        overview.mark && el("span", { "aria-hidden": "true" }, `${overview.mark} `),
        wordsOf(outcome.words),
      ),
    el("h1", {}, "Comparison"),
    others.length > 0 &&
      el(
        "p",
        { class: "about" },
        others.map((cell) => el("span", {}, cellContent(cell))),
      ),
    (overview.lead ?? []).map((line) => el("p", { class: line.tone ? "remark" : "lead" }, lineOf(line))),
  );
}

function renderPanel(section, index) {
  const about =
    section.about &&
    el(
      "p",
      { class: "about" },
      section.about.map((cell) => el("span", {}, cellContent(cell))),
    );
  const title = titleOf(section);
  const inner = section.sections ?? [];
  const labelOf = ({ key }, place) => {
    const before = inner.slice(0, place).filter((one) => one.key === key).length;
    return before ? `${title} (${before + 1})` : title;
  };
  return panel(`part-${index}`, wordsOf(section.title), about, !isPhone || index === 0, [
    renderParts(section, title),
    inner.map((one, place) => renderSection(one, labelOf(one, place))),
  ]);
}

const page = document.getElementById("page");
const sections = overview.sections ?? [];
page.append(
  ...present([
    renderHeader(),
    navigation([
      ...sections.map((section, index) => [`#part-${index}`, titleOf(section)]),
      overview.notes && ["#notes", "Notes"],
    ]),
    sections.map(renderPanel),
    overview.notes && panel("notes", "Notes", null, true, renderNotes(overview.notes)),
    keysDialog,
  ]),
);
listenToKeys({ step: (by) => stepRows(page, by) });
followToPart();

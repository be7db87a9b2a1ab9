// The samples of a dataset as a table with filters, sorting and pages.

const PAGE = isPhone ? 10 : 100;
const STATE_FILTERS = [
  ["", "all"],
  ["f", "failed"],
  ["b", "beyond limit"],
  ["y", "flaky"],
  ["p", "passed"],
  ["-", "not decided"],
];

class SampleTable {
  constructor(datasets) {
    this.datasets = datasets;
    this.body = el("tbody", { role: "rowgroup" });
    this.head = el("tr", { role: "row" });
    this.count = el("p", { class: "count", role: "status" });
    this.reason = el("div", { class: "remark buttons", hidden: true });
    this.pager = el("div", { class: "buttons" });
    this.search = el("input", {
      type: "search",
      input: () => this.searchSoon(),
      "data-search": true,
      autocomplete: "off",
      spellcheck: "false",
    });
    this.state = el("select", { change: () => this.refresh() });
    this.tag = el("select", { change: () => this.refresh() });
    this.metric = el("select", { change: () => this.refresh() });
    const options = datasets.map((dataset, index) => el("option", { value: index }, dataset.name));
    this.chosen = el("select", { change: () => this.choose(datasets[this.chosen.value]) }, options);
    this.element = this.build();
    if (datasets.length) this.choose(datasets[0]);
    this.texts = readSearchTexts().then((texts) => {
      this.questions = texts.questions;
      this.searched = texts.searched;
      this.fillQuestions();
    });
  }

  build() {
    const field = (label, control) => el("label", { class: "field" }, el("span", {}, label), control);
    return el(
      "section",
      { id: "samples", class: "panel" },
      el("h2", { tabindex: "-1" }, "Samples"),
      el(
        "form",
        { class: "fields", role: "search", "aria-label": "Filter samples", submit: (event) => event.preventDefault() },
        this.datasets.length > 1 && field("Dataset", this.chosen),
        field("Search in id, question, answer, tags", this.search),
        field("Status", this.state),
        field("Tag", this.tag),
        field("Beyond the limit of", this.metric),
      ),
      this.reason,
      this.count,
      el(
        "div",
        { class: "scroll", role: "region", tabindex: "0", "aria-label": "Samples" },
        el(
          "table",
          { class: "samples cards list", role: "table" },
          el("caption", { class: "unseen" }, "Samples. Column titles are buttons that sort."),
          el("thead", { role: "rowgroup" }, this.head),
          this.body,
        ),
      ),
      this.pager,
    );
  }

  choose(dataset) {
    this.clearReason();
    this.dataset = dataset;
    this.chosen.value = dataset.index;
    this.columns = columnsOf(dataset);
    this.sorted = { column: this.columns.find(({ title }) => title === "status"), descending: false };
    const having = (letter) => dataset.states.filter((states) => hasState(states, letter)).length;
    fill(
      this.state,
      STATE_FILTERS.map(([letter, word]) => [letter, `${word} (${formatCount(having(letter))})`]),
    );
    fill(this.tag, [["", "all"], ...dataset.tagNames.map((tag, index) => [index, tag])]);
    const broken = dataset.metrics
      .map((metric, index) => [index, metric])
      .filter(([index]) => dataset.beyond[index].size);
    fill(this.metric, [
      ["", "any or none"],
      ...broken.map(([index, metric]) => [index, `${metric} (${formatCount(dataset.beyond[index].size)})`]),
    ]);
    this.refresh();
  }

  /** Show only the samples that a reason of the verdict is about. */
  chooseReason(index) {
    const dataset = this.datasets.find(({ concerned }) => concerned.has(index));
    if (!dataset) return;
    this.search.value = "";
    this.choose(dataset);
    this.concerned = dataset.concerned.get(index);
    const showAll = () => {
      this.clearReason();
      this.refresh();
    };
    this.reason.replaceChildren(
      el("p", { dir: "auto" }, "Samples of: ", document.querySelector(`[data-reason="${index}"]`).textContent),
      el("button", { type: "button", click: showAll }, "Show all samples"),
    );
    this.reason.hidden = false;
    this.refresh();
    this.element.scrollIntoView();
    this.element.querySelector("h2").focus({ preventScroll: true });
  }

  clearReason() {
    this.concerned = null;
    this.reason.hidden = true;
  }

  /** Search after a pause in typing. The texts are unpacked on the first search. */
  searchSoon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(async () => {
      await this.texts;
      this.refresh();
    }, 120);
  }

  refresh() {
    this.page = 0;
    this.order = this.sort(this.filter());
    this.renderHead();
    this.renderRows();
  }

  filter() {
    const { dataset } = this;
    const words = this.search.value
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word);
    const tag = this.tag.value === "" ? null : Number(this.tag.value);
    const beyond = this.metric.value === "" ? null : dataset.beyond[this.metric.value];
    const tagTexts = dataset.tagNames.map((text) => text.toLowerCase());
    const found = [];
    for (let number = 0; number < dataset.ids.length; number += 1) {
      if (!hasState(dataset.states[number], this.state.value)) continue;
      if (tag !== null && !dataset.tags[number].includes(tag)) continue;
      if (beyond && !beyond.has(number)) continue;
      if (this.concerned && !this.concerned.has(number)) continue;
      if (words.length && !this.holds(number, words, tagTexts)) continue;
      found.push(number);
    }
    return found;
  }

  holds(number, words, tagTexts) {
    const { ids, tags, start } = this.dataset;
    const id = ids[number].toLowerCase();
    const text = this.searched[start + number];
    return words.every(
      (word) => id.includes(word) || text.includes(word) || tags[number].some((tag) => tagTexts[tag].includes(word)),
    );
  }

  /** Sort by the value of a column. Missing values come last in both directions. */
  sort(numbers) {
    const { column, descending } = this.sorted;
    const keys = new Map(numbers.map((number) => [number, column.key(number)]));
    const sign = descending ? -1 : 1;
    const isUnknown = (key) => key === null || key === undefined || key === "";
    return numbers.sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (isUnknown(a) || isUnknown(b)) return isUnknown(a) - isUnknown(b) || one - other;
      const order = typeof a === "string" ? collator.compare(a, b) : a - b;
      return sign * order || one - other;
    });
  }

  sortBy(column) {
    const again = this.sorted.column === column;
    this.sorted = { column, descending: again ? !this.sorted.descending : false };
    this.refresh();
    this.head.children[this.columns.indexOf(column)].querySelector("button").focus();
  }

  renderHead() {
    const { column: chosen, descending } = this.sorted;
    this.head.replaceChildren(
      ...this.columns.map((column) => {
        const sorted = column === chosen ? (descending ? "descending" : "ascending") : "none";
        const arrow = column !== chosen ? "" : descending ? " ▼" : " ▲";
        return el(
          "th",
          { scope: "col", role: "columnheader", class: column.kind, "aria-sort": sorted },
          el(
            "button",
            { type: "button", click: () => this.sortBy(column) },
            el("bdi", {}, column.title),
            el("span", { "aria-hidden": "true" }, arrow),
          ),
        );
      }),
    );
  }

  async renderRows() {
    const first = this.page * PAGE;
    const { dataset, order } = this;
    const numbers = order.slice(first, first + PAGE);
    const rows = await Promise.all(numbers.map((number) => readTexts("rows", dataset.start + number)));
    if (this.order !== order || this.page * PAGE !== first) return;
    this.body.replaceChildren(...rows.map((row, index) => this.renderRow(row, numbers[index])));
    this.fillQuestions();
    this.renderCount(first, numbers.length);
  }

  renderCount(first, shown) {
    const all = this.dataset.ids.length;
    const found = this.order.length;
    this.count.textContent =
      found === all ? counted(all, "sample") : `${formatCount(found)} of ${counted(all, "sample")}`;
    const turn = (by) => () => {
      this.page += by;
      this.renderRows();
      this.element.scrollIntoView();
    };
    const last = first + shown;
    this.pager.replaceChildren(
      ...(found <= PAGE
        ? []
        : [
            el("button", { type: "button", disabled: !this.page, click: turn(-1) }, "Previous"),
            el("span", {}, `${formatCount(first + 1)} to ${formatCount(last)} of ${formatCount(found)}`),
            el("button", { type: "button", disabled: last === found, click: turn(1) }, "Next"),
          ]),
    );
  }

  renderRow(row, number) {
    const element = build(row);
    element.prepend(el("td", { class: "number order", role: "cell", "data-title": "#" }, formatCount(number + 1)));
    element.children[this.columns.indexOf(this.sorted.column)].classList.add("sorted");
    element.dataset.number = number;
    element.addEventListener("click", (event) => this.openRow(event, number));
    return element;
  }

  /** Make a click anywhere in a row follow its link, unless text is being selected. */
  openRow(event, number) {
    if (event.target.closest("a") || String(getSelection())) return;
    location.hash = sampleHash(this.dataset.name, this.dataset.ids[number]);
  }

  fillQuestions() {
    if (!this.questions) return;
    for (const row of this.body.children) {
      row.querySelector(".question").textContent =
        this.questions[this.dataset.start + Number(row.dataset.number)] ?? "";
    }
  }
}

const collator = new Intl.Collator("en", { numeric: true });

const hasState = (states, letter) => letter === "" || (letter === "-" ? states === "" : states.includes(letter));

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
}

/** Title, class and sort key of each column. The most severe samples have the lowest key of `status`. */
function columnsOf(dataset) {
  const gravity = "fbyp";
  const statusKey = (number) => {
    const place = gravity.indexOf(dataset.states[number][0] ?? "-");
    const grave = place < 0 ? 3.5 : place === 3 ? 4 : place;
    return grave * 1e7 + (dataset.rank[number] ?? 1e6);
  };
  const tagsOf = (number) => dataset.tags[number].map((tag) => dataset.tagNames[tag]).join(" ");
  const keys = [
    (number) => dataset.ids[number],
    statusKey,
    ...dataset.metrics.map((_, which) => (number) => dataset.values[which][number]),
    (number) => dataset.latency[number],
    tagsOf,
  ];
  const titles = present(build(dataset.head));
  return [
    { title: "#", kind: "number order", key: (number) => number },
    ...titles.map((cell, index) => ({ title: cell.textContent, kind: cell.className, key: keys[index] })),
  ];
}

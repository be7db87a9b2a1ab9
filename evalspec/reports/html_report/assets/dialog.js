// The dialog that shows a sample, and its URL fragment.

class SampleDialog {
  /** `orderOf(dataset)`: the samples for the buttons Previous and Next. */
  constructor(datasets, orderOf) {
    this.datasets = datasets;
    this.orderOf = orderOf;
    this.title = el("h1", { id: "sample-title", tabindex: "-1" });
    this.about = el("p", { class: "about" });
    this.content = el("div", { class: "blocks" });
    this.back = el("button", { type: "button", "data-previous": true, click: () => this.step(-1) }, "Previous");
    this.on = el("button", { type: "button", "data-next": true, click: () => this.step(1) }, "Next");
    const close = el("button", { type: "button", click: () => this.element.close() }, "Close");
    this.element = el(
      "dialog",
      { class: "drawer", "aria-labelledby": "sample-title", close: () => this.forget(), click: (event) => this.closeOutside(event) },
      el("div", { class: "bar" }, el("div", { class: "buttons" }, this.back, this.on, close), this.title, this.about),
      this.content,
    );
  }

  /** Show the sample of the URL fragment, if there is one. */
  follow() {
    const wanted = parseHash(location.hash);
    if (!wanted) {
      if (this.element.open) this.element.close();
      return;
    }
    const among = this.datasets.filter(({ name }) => wanted.dataset === undefined || name === wanted.dataset);
    const dataset = among.find(({ ids }) => ids.includes(wanted.sample));
    if (dataset) this.show(dataset, dataset.ids.indexOf(wanted.sample));
    else this.showMissing(wanted.sample);
  }

  async show(dataset, number) {
    this.shown = { dataset, number };
    this.open(dataset.ids[number]);
    const order = this.orderOf(dataset);
    const at = order.indexOf(number);
    this.back.disabled = at <= 0;
    this.on.disabled = at < 0 || at === order.length - 1;
    const inRun = dataset.start + number;
    const texts = await Promise.all([readTexts("asked", inRun), readTexts("rest", inRun)]);
    if (this.shown.dataset !== dataset || this.shown.number !== number) return;
    const [[, known], [about, content]] = texts;
    this.about.replaceChildren(...build(about).childNodes);
    this.content.replaceChildren(...present(build(content, known)));
    this.content.scrollTop = 0;
  }

  showMissing(id) {
    this.shown = {};
    this.open(id);
    this.about.replaceChildren();
    this.back.disabled = this.on.disabled = true;
    this.content.replaceChildren(el("p", {}, "This run has no sample of that id."));
  }

  open(id) {
    this.title.textContent = id;
    this.content.replaceChildren();
    if (!this.element.open) this.element.showModal();
    this.title.focus();
  }

  /** Show the next or previous sample, without a new entry in the browser history. */
  step(by) {
    const { dataset, number } = this.shown;
    const order = this.orderOf(dataset);
    const next = order[order.indexOf(number) + by];
    history.replaceState(null, "", sampleHash(dataset.name, dataset.ids[next]));
    this.show(dataset, next);
  }

  closeOutside(event) {
    if (event.target === this.element) this.element.close();
  }

  forget() {
    if (parseHash(location.hash)) history.replaceState(null, "", "#samples");
  }
}

function sampleHash(dataset, id) {
  const several = overview.datasets.length > 1 ? `dataset=${encodeURIComponent(dataset)}&` : "";
  return `#${several}sample=${encodeURIComponent(id)}`;
}

/** Parse `#sample=<id>`, with `dataset=<name>` if several datasets may have the id; null for other fragments. */
function parseHash(hash) {
  const parts = new Map(
    hash
      .slice(1)
      .split("&")
      .map((part) => part.split(/=(.*)/s, 2)),
  );
  if (!parts.has("sample")) return null;
  return {
    sample: decode(parts.get("sample") ?? ""),
    dataset: parts.has("dataset") ? decode(parts.get("dataset")) : undefined,
  };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

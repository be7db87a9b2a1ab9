// Show the overview first, and the samples after their data is unpacked.

const page = document.getElementById("page");
const waiting = el("section", { id: "samples", class: "panel" }, el("h2", {}, "Samples"));
const parts = [
  renderHeader(),
  renderNavigation(),
  renderBaseline(),
  overview.datasets.map(renderDataset),
  sectionsOf("gold").map(renderGold),
  waiting,
  renderRun(),
  keysDialog,
];
page.append(...present(parts));
followToPart();

readDatasets()
  .then((datasets) => {
    const samples = new SampleTable(datasets);
    const orderOf = (dataset) => (samples.dataset === dataset ? samples.order : [...dataset.ids.keys()]);
    const dialog = new SampleDialog(datasets, orderOf);
    waiting.replaceWith(samples.element);
    page.append(dialog.element);
    listenToKeys({
      step: (by) => (dialog.element.open ? dialog.turn(by) : stepRows(samples.element, by)),
      search: () => dialog.element.open || samples.search.focus(),
    });
    const follow = () => {
      dialog.follow();
      const reason = /^#reason=(\d+)$/.exec(location.hash);
      if (reason) samples.chooseReason(Number(reason[1]));
    };
    window.addEventListener("hashchange", follow);
    follow();
  })
  .catch((error) => {
    waiting.append(el("p", { class: "error" }, `The samples cannot be shown in this browser: ${error.message}`));
    throw error;
  });

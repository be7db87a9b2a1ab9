// Show the samples after their data is unpacked.

const waiting = document.getElementById("samples");

readDatasets()
  .then((datasets) => {
    const samples = new SampleTable(datasets);
    const orderOf = (dataset) => (samples.dataset === dataset ? samples.order : [...dataset.ids.keys()]);
    const dialog = new SampleDialog(datasets, orderOf);
    waiting.replaceWith(samples.element);
    document.body.append(dialog.element);
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

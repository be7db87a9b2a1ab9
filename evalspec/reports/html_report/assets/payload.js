// The data of the samples, unpacked on demand.

/** The data that the page needs immediately. */
const overview = JSON.parse(document.getElementById("overview").textContent);

const whole = new Promise((resolve) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", resolve, { once: true });
  else resolve();
});

async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** A dataset's columns, with its overview and the number of its first sample in the run. */
async function readDatasets() {
  const columns = await unpack("columns");
  let start = 0;
  return overview.datasets.map((dataset, index) => {
    const found = { ...dataset, ...columns[index], index, start };
    found.beyond = found.beyond.map((numbers) => new Set(numbers));
    found.concerned = new Map(Object.entries(found.concerned).map(([reason, numbers]) => [Number(reason), new Set(numbers)]));
    start += dataset.samples;
    return found;
  });
}

const MOST_PIECES_KEPT = 60;
const pieces = new Map();

/** The content of a kind of text block for a sample, by its number in the run. */
async function readTexts(kind, number) {
  await whole;
  const firsts = overview.chunks[kind];
  let piece = firsts.length - 1;
  while (firsts[piece] > number) piece -= 1;
  const id = `${kind}-${piece}`;
  if (!pieces.has(id)) {
    pieces.set(id, unpack(id));
    if (pieces.size > MOST_PIECES_KEPT) pieces.delete(pieces.keys().next().value);
  }
  return (await pieces.get(id))[number - firsts[piece]];
}

/** Questions for the table and texts to search, by number in the run. Each piece is read once. */
async function readSearchTexts() {
  await whole;
  const questions = [];
  const searched = [];
  for (const piece of overview.chunks.asked.keys()) {
    for (const [place, texts] of await unpack(`asked-${piece}`)) {
      questions.push(place === null ? null : texts[place].slice(0, 300).replace(/\s+/g, " ").trim());
      searched.push(texts.join("\n").toLowerCase());
    }
  }
  return { questions, searched };
}

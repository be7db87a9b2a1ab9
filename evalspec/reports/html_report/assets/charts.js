// Charts as inline SVG, with a text alternative for screen readers.

const WIDTH = 280;
const HEIGHT = 116;
const FLOOR = 92;
const TOP = 22;

/** Distribution of a metric's values, with its limit. */
function distributionChart(chart) {
  const { histogram } = chart;
  const caption = [`${formatCount(histogram.n)} scored`];
  if (chart.median) caption.push(`median ${chart.median}`);
  if (chart.limit) caption.push(`limit ${chart.limit}`);
  const place = scaleOf(histogram);
  const lines = chart.bounds.map((bound) => limitLine(place(bound), chart.broken));
  return chartFigure(chart.name, drawHistogram(chart.name, histogram, lines, caption), caption.join(" · "));
}

/** Distribution of latencies, with percentiles. */
function latencyChart(histogram) {
  const place = scaleOf(histogram);
  const lines = histogram.percentiles.map(([percentile, value], index) => [
    verticalLine(place(value), "percentile", 10 * index),
    labelAt(place(value), 8 + 10 * index, percentile),
  ]);
  lines.push(histogram.limits.map(([bound, broken]) => limitLine(place(bound), broken)));
  const caption = histogram.percentiles.map(([percentile, value]) => `${percentile} ${formatValue("", value)}`);
  return chartFigure("latency in ms", drawHistogram("latency", histogram, lines, caption, " ms"), caption.join(" · "));
}

function chartFigure(title, drawing, caption) {
  return el("figure", { class: "chart" }, el("h3", {}, name(title)), drawing, el("figcaption", {}, caption));
}

const limitLine = (x, broken) => verticalLine(x, `limit${broken ? " broken" : ""}`);

const scaleOf =
  ({ low, high }) =>
  (value) =>
    ((value - low) / (high - low)) * WIDTH;

function verticalLine(x, kind, top = 0) {
  const at = Math.min(Math.max(x, 0.75), WIDTH - 0.75);
  return svg("line", { class: kind, x1: at, x2: at, y1: top, y2: FLOOR });
}

function labelAt(x, y, text) {
  const atEnd = x > WIDTH - 30;
  return svg("text", { x: atEnd ? x - 3 : x + 3, y, "text-anchor": atEnd ? "end" : "start" }, text);
}

function drawHistogram(title, { low, high, counts }, lines, caption, unit = "") {
  const tallest = Math.max(...counts);
  const step = WIDTH / counts.length;
  const edge = (index) => formatEnd(low + ((high - low) * index) / counts.length);
  const bars = counts.map((count, index) => {
    if (!count) return null;
    const height = Math.max((count / tallest) * (FLOOR - TOP), 1.5);
    const hint = svg("title", {}, `${edge(index)} to ${edge(index + 1)}${unit}: ${formatCount(count)}`);
    const shape = { class: "bar", x: index * step + 0.75, y: FLOOR - height, width: step - 1.5, height, rx: 1 };
    return svg("rect", shape, hint);
  });
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Distribution of ${title}: ${caption.join(", ")}` },
    bars,
    svg("line", { class: "floor", x1: 0, x2: WIDTH, y1: FLOOR, y2: FLOOR }),
    svg("text", { x: 0, y: FLOOR + 14 }, formatEnd(low) + unit),
    svg("text", { x: WIDTH, y: FLOOR + 14, "text-anchor": "end" }, formatEnd(high) + unit),
    lines,
  );
}

/** A value as a point on its scale, with interval and limit. The table shows the numbers beside it. */
function intervalPlot({ point, ends, min, max }, tone) {
  const known = [point, ...(ends ?? []), min, max].filter((value) => value !== null && value !== undefined);
  const low = Math.min(0, ...known);
  const high = Math.max(...known) <= 1 ? 1 : Math.max(...known) * 1.05;
  const place = (value) => 4 + ((value - low) / (high - low)) * 132;
  const bounds = [min, max].filter((bound) => bound !== null && bound !== undefined);
  return svg(
    "svg",
    { class: `plot ${tone}`, viewBox: "0 0 140 18", "aria-hidden": "true" },
    svg("line", { class: "floor", x1: 4, x2: 136, y1: 9, y2: 9 }),
    bounds.map((bound) => svg("line", { class: "limit", x1: place(bound), x2: place(bound), y1: 1, y2: 17 })),
    ends && svg("line", { class: "interval", x1: place(ends[0]), x2: place(ends[1]), y1: 9, y2: 9 }),
    svg("circle", { class: "point", cx: place(point), cy: 9, r: 4 }),
  );
}

// Number formats of the other reports (reporters/wording.py).

const UNKNOWN = "–";
const MOST_DECIMALS = 9;
const formats = new Map();

function fixed(value, decimals) {
  if (!formats.has(decimals)) {
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    formats.set(decimals, new Intl.NumberFormat("en-US", digits));
  }
  return formats.get(decimals).format(value);
}

const formatCount = (count) => fixed(count, 0);
const counted = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
const unitOf = (metric) => (/(^|\.)latency[^.]*$/i.test(metric) ? " ms" : "");

/** A value beyond its limit gets enough decimals to show that. */
function formatValue(metric, value, limit = {}) {
  if (value === null || value === undefined) return UNKNOWN;
  const size = Math.abs(value);
  let decimals = size < 10 ? 3 : size < 1000 ? 1 : 0;
  while (isBeyond(value, limit) && decimals < MOST_DECIMALS && !isBeyond(Number(value.toFixed(decimals)), limit)) {
    decimals += 1;
  }
  return fixed(value, decimals) + unitOf(metric);
}

function isBeyond(value, { min = null, max = null }) {
  return (min !== null && value < min) || (max !== null && value > max);
}

/** The end of a scale. */
const formatEnd = (value) => (Math.abs(value) >= 10 ? fixed(value, 0) : fixed(value, Number.isInteger(value) ? 0 : 2));

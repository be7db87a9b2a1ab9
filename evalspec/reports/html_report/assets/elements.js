// The only code that creates elements: texts become text nodes, and attributes are set by name.

/** The data that the page needs immediately. */
const overview = JSON.parse(document.getElementById("overview").textContent);

/** Flatten nested lists of parts, without null, undefined, false and empty texts. */
const present = (parts) => parts.flat(Infinity).filter((part) => part || part === 0);

function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Create an element that the report drew. A number stands for one of the sample's texts. */
function build([name, attributes, children], texts = []) {
  const parts = children.map((child) => {
    if (Array.isArray(child)) return build(child, texts);
    return typeof child === "number" ? texts[child] : child;
  });
  if (!name) return parts;
  if (parts.length === 1 && parts[0].length > LONGEST_AT_ONCE) return longProse(attributes, parts[0]);
  return el(name, attributes, parts);
}

/** Whether the page is laid out for a phone, as in the styles. */
const isPhone = matchMedia("(max-width: 720px)").matches;

const formatCount = (count) => count.toLocaleString("en-US");
const counted = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;

const LONGEST_AT_ONCE = 20000;

/** A very long text, collapsed at first. */
function longProse(attributes, text) {
  const [first, ...others] = splitText(text).map((piece) => el("div", {}, piece));
  const block = el("div", attributes, first);
  const showAll = () => {
    block.append(...others);
    button.remove();
  };
  const button = el("button", { type: "button", click: showAll }, `Show all ${formatCount([...text].length)} characters`);
  return el("div", {}, block, button);
}

/** Split a text at ends of lines or words: a browser may need a minute to lay out a paragraph of a megabyte. */
function splitText(text) {
  const pieces = [];
  for (let at = 0; at < text.length;) {
    const piece = text.slice(at, at + LONGEST_AT_ONCE);
    const end = piece.lastIndexOf("\n") + 1 || piece.lastIndexOf(" ") + 1 || wholeCharacters(piece);
    pieces.push(at + piece.length < text.length ? piece.slice(0, end) : piece);
    at += pieces.at(-1).length;
  }
  return pieces;
}

/** The end of a piece that does not split a surrogate pair. */
const wholeCharacters = (piece) => piece.length - (/[\ud800-\udbff]$/.test(piece) ? 1 : 0);

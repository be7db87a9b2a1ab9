// Elements that the report drew and packed.

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
